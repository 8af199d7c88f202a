# Finds a Python that has the modules that training and plots need, or has Debian bring them.
# Sourced, after common.sh and setup.sh; leaves the interpreter in `python`.
# shellcheck shell=bash disable=SC2034

# find_python MODULE...: the first of $PYTHON, the one on PATH and the system's that has all modules. A torch with a CUDA
# of its own counts as none: it brings NVIDIA's runtime and NCCL into the process, where the emulated ones cannot be then.
find_python() {
  local candidate
  for candidate in "${PYTHON:-}" "$(command -v python3 || true)" /usr/bin/python3; do
    [[ -x $candidate ]] || continue
    "$candidate" - "$@" <<'EOF' || continue
import importlib.util, pathlib, re, sys
for module in sys.argv[1:]:  # looked for, not imported: importing torch takes seconds
    found = importlib.util.find_spec(module)
    if found is None:
        sys.exit(1)
    if module == "torch":
        version = pathlib.Path(found.origin).with_name("version.py").read_text()
        if not re.search(r"^cuda\b.*= None", version, re.MULTILINE):
            sys.exit(1)
EOF
    python=$candidate
    return 0
  done
  return 1
}

# set_up_python MODULE...: as find_python; what is missing comes from Debian, whose packages are named after modules.
set_up_python() {
  find_python "$@" && return 0
  local packages=("${@/#/python3-}")
  # Debian's torch is content with the reference BLAS, which is several times slower.
  [[ " $* " != *" torch "* ]] || packages+=(libopenblas0-pthread)
  install_debian_packages "${packages[@]}"
  find_python "$@" || give_up "a Python with $*" \
    "the packages were installed, and no python3 has all of them; a torch with a CUDA of its own does not count" \
    "name one by PYTHON=/path/to/python3"
}
