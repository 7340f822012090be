for (const explorer of document.querySelectorAll(".explorer")) {
  const {images, levels, axes, extent, labels} = JSON.parse(explorer.querySelector("script").textContent);
  const menus = [...explorer.querySelectorAll("select")];
  const canvas = explorer.querySelector("canvas"), image = explorer.querySelector("img");
  const output = explorer.querySelector("output"), note = output.textContent;
  const context = canvas.getContext("2d", {willReadFrequently: true});
  let shown = new Uint8Array(0);
  const stops = levels[0] < 0
    ? [[5, 48, 97], [67, 147, 195], [247, 247, 247], [214, 96, 77], [103, 0, 31]]
    : [[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 137, 97], [252, 253, 191]];
  const colour = level => {
    const place = level / 255 * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
    return stops[low].map((value, channel) => value + (place - low) * (stops[low + 1][channel] - value));
  };
  const palette = levels.map((_, level) => colour(level));
  const paint = () => {
    const {naturalWidth: width, naturalHeight: height} = image;
    [canvas.width, canvas.height] = [width, height];
    context.drawImage(image, 0, 0);
    const pixels = context.getImageData(0, 0, width, height);
    shown = new Uint8Array(width * height);
    for (let place = 0; place < shown.length; place++) {
      shown[place] = pixels.data[4 * place];
      pixels.data.set(palette[shown[place]], 4 * place);
    }
    context.putImageData(pixels, 0, 0);
    image.hidden = true;
    canvas.hidden = false;
  };
  const choose = () => {
    const png = images[menus.map(menu => menu.value).join("\t")];
    if (png) image.src = "data:image/png;base64," + png;
    else [canvas.hidden, output.textContent] = [true, "There is no such map."];
  };
  const where = (place, size, total) => {
    const cell = Math.ceil(total / size), from = place * cell, to = Math.min(from + cell, total) - 1;
    const label = labels[from] === undefined ? "" : ` (${labels[from]})`;
    return (to > from ? `${from} to ${to}` : `${from}`) + label;
  };
  canvas.addEventListener("pointermove", event => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(Math.floor((event.clientX - box.left) / box.width * canvas.width), canvas.width - 1);
    const row = Math.min(Math.floor((event.clientY - box.top) / box.height * canvas.height), canvas.height - 1);
    if (column < 0 || row < 0) return;
    const level = levels[shown[row * canvas.width + column]];
    const [rows, columns] = [extent[0] || canvas.height, extent[1] || canvas.width];
    output.textContent = `${axes[0]} ${where(row, canvas.height, rows)}, ` +
      `${axes[1]} ${where(column, canvas.width, columns)}: ${Number(level.toPrecision(3))}`;
  });
  canvas.addEventListener("pointerleave", () => { output.textContent = note; });
  image.addEventListener("load", () => { output.textContent = note; paint(); });
  if (image.complete && image.naturalWidth) paint();
  for (const menu of menus) menu.addEventListener("change", choose);
  choose();
}
