#!/usr/bin/env bash
# Build pytorch-fast-transformers into .venv. A step of its own because its setup needs torch (so no build
# isolation) and must not see nvcc unless torch itself has CUDA. A machine that cannot build it is told so in
# one line and goes on without that backend; under CI it is a failure.
set -u
cd "$(dirname "$0")/.."
python=.venv/bin/python
log=.venv/fast-transformers.log

path=$PATH
if [ "$($python -c 'import torch; print(torch.version.cuda is not None)')" = False ]; then
  path=$(printf '%s\n' "$PATH" | tr : '\n' | while read -r folder; do
    [ -x "$folder/nvcc" ] || printf '%s:' "$folder"; done)
fi

install() {
  PATH="${path%:}" CFLAGS=-g0 $python -m pip install -q -c constraints.txt --no-build-isolation "$@"
}

works() {
  $python -c 'import torch, fast_transformers.causal_product'
}

build() {
  install setuptools wheel &&
  install pytorch-fast-transformers &&
  # One that was built for another torch, here or in pip's cache, does not load: build it for this one.
  { works || { install --force-reinstall --no-deps --no-cache-dir pytorch-fast-transformers && works; }; }
}

echo "building pytorch-fast-transformers (a few minutes the first time; log: $log)"
build >"$log" 2>&1 && exit 0
echo "pytorch-fast-transformers could not be built here (see $log): its backend is left out and its tests skip"
[ -z "${CI:-}" ]
