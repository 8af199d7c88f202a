# Gets the tools that the build needs: Debian's packages, and NVIDIA's toolkit where the machine has none.
# Sourced, after common.sh; leaves CMake arguments in the array `toolkit_arguments`.
# shellcheck shell=bash source=common.sh disable=SC2154

# Everything is of CUDA 13.0, the version whose output the sandbox is tested with.
toolkit_wheels=(
  nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
)
nccl_wheel=nvidia-nccl-cu13==2.28.9
# Reads machine code of older compilers too.
disassembler_wheel=nvidia-cuda-nvdisasm==13.5.37
toolkit_arguments=()

# missing_packages: the Debian packages that are needed and not there. What is asked is whether the thing works, not
# whether Debian brought it: a compiler or a CMake of the user's own is as good.
missing_packages() {
  local cxx=${CXX:-g++} version
  set +e  # every line asks for something that may not be there
  echo 'int main() {}' | "$cxx" -std=c++20 -x c++ -fsyntax-only - 2>/dev/null || echo g++
  version=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*//p')
  [[ $(printf '%s\n' 3.25 "${version:-0}" | sort -V | head -1) == 3.25 ]] || echo cmake
  ninja --version >/dev/null 2>&1 || echo ninja-build
  has_header catch2/catch.hpp || has_header catch2/catch_all.hpp || echo catch2
  if [[ ${PLOTS_REQUIRED:-0} == 1 ]]; then
    python3 -c 'import matplotlib' 2>/dev/null || /usr/bin/python3 -c 'import matplotlib' 2>/dev/null ||
      echo python3-matplotlib
    command -v chromium >/dev/null || command -v google-chrome >/dev/null || echo chromium
  fi
  has_header lz4.h || echo liblz4-dev
  has_header zstd.h || echo libzstd-dev
  if [[ ${TEST_TOOLS_REQUIRED:-0} == 1 ]]; then  # without them the tests that need them are skipped
    command -v aarch64-linux-gnu-g++ >/dev/null || echo g++-aarch64-linux-gnu
    command -v qemu-aarch64 >/dev/null || command -v qemu-aarch64-static >/dev/null || echo qemu-user
    command -v pkg-config >/dev/null || echo pkg-config
    command -v cppcheck >/dev/null || echo cppcheck
    has_fuzzer || echo clang libclang-rt-dev
    find_disassembler || python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
    if command -v dpkg >/dev/null; then
      command -v dpkg-shlibdeps >/dev/null || echo dpkg-dev
      command -v file >/dev/null || echo file
      [[ $(id -u) == 0 ]] || command -v fakeroot >/dev/null || echo fakeroot
    fi
  fi
  if [[ ${CHECK_FORMAT_REQUIRED:-0} == 1 ]]; then command -v clang-format-14 >/dev/null || echo clang-format-14; fi
  if ! find_nvcc || ! find_nccl "$(beside "$found_nvcc")" >/dev/null; then
    [[ -f $toolkit_dir/complete ]] || python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
  fi
}

has_fuzzer() {
  command -v clang++ >/dev/null && echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fsanitize=fuzzer,address -x c++ - -o /dev/null 2>/dev/null
}

has_header() { echo "#include <$1>" | "${CXX:-g++}" -std=c++20 -x c++ -E - >/dev/null 2>&1; }

# find_nvcc: leaves the nvcc to use in `found_nvcc` (of CUDACXX, PATH, CUDA_HOME and the usual place, the first of CUDA
# 13.0 or later), and those that are too old in the array `refused_nvcc`.
find_nvcc() {
  local candidate version
  refused_nvcc=()
  for candidate in "${CUDACXX:-}" "$(command -v nvcc || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc"; do
    [[ -x $candidate ]] || continue
    version=$(nvcc_version "$candidate")
    if [[ -n $version && $(printf '%s\n' 13.0 "$version" | sort -V | head -1) == 13.0 ]]; then
      found_nvcc=$candidate
      return 0
    fi
    refused_nvcc+=("$candidate (${version:-says no version})")
  done
  return 1
}

nvcc_version() { "$1" --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\),.*/\1/p'; }

# find_nccl FOLDER [FILE]: prints the folder of nccl.h, if there is one with FILE beside it: of NCCL 2.28 or later, the first
# with nccl_device/, unless FILE asks for less.
find_nccl() {
  local folder needed=${2:-nccl_device/core.h}
  for folder in "$1" "$toolkit_dir/nvidia/nccl/include" /usr/local/cuda/include /usr/local/include /usr/include; do
    if [[ -f $folder/nccl.h && -f $folder/$needed ]]; then
      echo "$folder"
      return 0
    fi
  done
  return 1
}

# beside FILE: the include folder of the toolkit that nvcc belongs to.
beside() { echo "$(dirname "$(dirname "$1")")/include"; }

install_debian_packages() {
  local packages=("$@") as_root=()
  if ! command -v apt-get >/dev/null; then
    give_up "these are missing: ${packages[*]} (Debian's names)" "this system has no apt-get" \
      "install them in your system's way and run this again"
  fi
  if [[ $(id -u) != 0 ]]; then
    command -v sudo >/dev/null || give_up "these packages are missing: ${packages[*]}" \
      "installing needs root, and there is no sudo" "run as root: apt-get install ${packages[*]}"
    as_root=(sudo)
  fi
  say "installing from Debian: ${packages[*]}"
  quietly apt-update "${as_root[@]}" apt-get update ||
    say "apt-get update failed; trying with the lists that are there"
  quietly apt-install "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends "${packages[@]}" ||
    give_up "${packages[*]} could not be installed" "apt-get said the lines above (all of it: build/log/apt-install.log)" \
      "install them by hand and run this again"
}

# install_toolkit WHEEL...: unpacks NVIDIA's wheels and gives the result the shape of an installed toolkit.
install_toolkit() {
  local wheels=("$@") root=$toolkit_dir/nvidia/cu13
  if [[ -f $toolkit_dir/complete && $(cat "$toolkit_dir/complete") == "${wheels[*]}" ]]; then
    return 0
  fi
  # The compiler may be one that this script brought earlier, and CUDACXX or PATH then says to go on using it.
  if [[ -n ${found_nvcc:-} && $(realpath "$found_nvcc") == "$(realpath -m "$toolkit_dir")"/* ]]; then
    give_up "${wheels[*]}" "they would replace $toolkit_dir, which holds the compiler in use, $found_nvcc" \
      "take it out of CUDACXX, CUDA_HOME and PATH, and run this again: it brings both"
  fi
  say "installing NVIDIA's toolkit from PyPI into build/toolkit: ${wheels[*]}"
  rm -rf "$toolkit_dir"
  # --target leaves the system's Python alone.
  quietly toolkit python3 -m pip install --disable-pip-version-check --no-deps --target "$toolkit_dir" "${wheels[@]}" ||
    give_up "NVIDIA's CUDA toolkit" "pip said the lines above (all of it: build/log/toolkit.log)" \
      "install CUDA 13.0 or later and NCCL by other means, put nvcc on PATH, and run this again"
  mkdir -p "$root/include" "$root/lib"
  ln -sfn lib "$root/lib64"
  [[ ! -e $root/lib/libcudart.so.13 ]] || ln -sfn libcudart.so.13 "$root/lib/libcudart.so"
  ln -sfn libnccl.so.2 "$toolkit_dir/nvidia/nccl/lib/libnccl.so"
  echo "${wheels[*]}" >"$toolkit_dir/complete"
}

# find_disassembler: the nvdisasm that bench/kernels/sass would use, if there is one.
find_disassembler() {
  local candidate
  for candidate in "$(command -v nvdisasm || true)" "${CUDA_HOME:-/usr/local/cuda}/bin/nvdisasm" \
    "$toolkit_dir/nvidia/cu13/bin/nvdisasm" "$sass_dir/nvidia/cu13/bin/nvdisasm"; do
    [[ ! -x $candidate ]] || return 0
  done
  return 1
}

# set_up_disassembler: without it only the test of the machine code is skipped.
set_up_disassembler() {
  find_disassembler && return 0
  say "installing NVIDIA's disassembler from PyPI into build/sass: $disassembler_wheel"
  quietly disassembler python3 -m pip install --disable-pip-version-check --no-deps --target "$sass_dir" \
    "$disassembler_wheel" || say "it could not be had (build/log/disassembler.log); the tests that need it are skipped"
}

set_up_tools() {
  local missing=() missing_list nvcc nccl refused
  missing_list=$(missing_packages)
  mapfile -t missing < <(printf '%s' "$missing_list")
  [[ ${#missing[@]} == 0 ]] || install_debian_packages "${missing[@]}"
  if find_nvcc; then
    nvcc=$found_nvcc
    toolkit_arguments=("-DCMAKE_CUDA_COMPILER:FILEPATH=$nvcc")
    if ! nccl=$(find_nccl "$(beside "$nvcc")"); then
      install_toolkit "$nccl_wheel"
      nccl=$toolkit_dir/nvidia/nccl/include
    fi
    toolkit_arguments+=("-DNCCL_INCLUDE_DIR=$nccl")
  else
    for refused in "${refused_nvcc[@]}"; do
      say "not used, for CUDA 13.0 or later is needed: $refused"
    done
    install_toolkit "${toolkit_wheels[@]}" "$nccl_wheel"
    nvcc=$toolkit_dir/nvidia/cu13/bin/nvcc
    toolkit_arguments=("-DCMAKE_CUDA_COMPILER:FILEPATH=$nvcc" "-DCUDAToolkit_ROOT=$toolkit_dir/nvidia/cu13"
      "-DNCCL_INCLUDE_DIR=$toolkit_dir/nvidia/nccl/include")
  fi
  [[ ${TEST_TOOLS_REQUIRED:-0} == 0 ]] || set_up_disassembler
  say "tools: $("${CXX:-g++}" --version | head -1); $(cmake --version | head -1); nvcc $(nvcc_version "$nvcc") ($nvcc)"
}
