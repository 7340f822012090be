document.addEventListener("play", event => {
  for (const sound of document.querySelectorAll("audio")) if (sound !== event.target) sound.pause();
}, true);
