# Brings a toolkit of CUDA 12 into a folder: nvcc from Debian's package, unpacked and not installed, the rest from PyPI.
# Sourced, after common.sh and setup.sh.
# shellcheck shell=bash source=common.sh disable=SC2154

# NVIDIA's wheels for CUDA 12 have ptxas and headers but no nvcc; Debian has it, in the component non-free.
cuda12_suite=trixie
cuda12_package=nvidia-cuda-toolkit
# Of the compiler's own version; the runtime to link to may be a newer 12, and only the newer wheels have it as archive.
cuda12_headers=(nvidia-cuda-nvcc-cu12==12.4.131 nvidia-cuda-runtime-cu12==12.4.127 nvidia-nvtx-cu12==12.4.127)
cuda12_runtime=nvidia-cuda-runtime-cu12==12.9.79
cuda12_nccl=nvidia-nccl-cu12==2.28.9

# debian_archive: where this system's apt gets Debian from, as URI.
debian_archive() {
  # shellcheck disable=SC2016  # apt's names
  apt-get indextargets --format '$(REPO_URI) $(ORIGIN) $(COMPONENT)' 2>/dev/null |
    awk '$2 == "Debian" && $3 == "main" && $1 !~ /security/ { print $1; exit }'
}

# download_from_debian FOLDER: leaves the package there. Apt's own state is not touched, and root is not needed.
download_from_debian() {
  local folder=$1 archive key=/usr/share/keyrings/debian-archive-keyring.gpg
  archive=$(debian_archive)
  [[ -n $archive && -f $key ]] || {
    echo "this system's apt has no Debian archive (or no $key)"
    return 1
  }
  mkdir -p "$folder"/{lists/partial,cache/archives/partial}
  : >"$folder/status"
  echo "deb [signed-by=$key] $archive $cuda12_suite non-free" >"$folder/sources.list"
  cat >"$folder/apt.conf" <<EOF
Dir::Etc::sourcelist "$folder/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::lists "$folder/lists";
Dir::State::status "$folder/status";
Dir::Cache "$folder/cache";
APT::Architecture "amd64";
APT::Sandbox::User "";
EOF
  (cd "$folder" && export APT_CONFIG=$folder/apt.conf && apt-get update && apt-get download "$cuda12_package")
}

# bring_cuda12 FOLDER: an absolute path; FOLDER/bin/nvcc is there afterwards, and FOLDER/nccl/nccl.h. Returns 1 if they
# cannot be had; build/log/cuda12-*.log say why. FOLDER/complete names what it is made of: another list is brought anew.
bring_cuda12() {
  local folder=$1 downloads=$1.downloads nccl
  local pins="Debian $cuda12_suite $cuda12_package ${cuda12_headers[*]} $cuda12_runtime $cuda12_nccl"
  if [[ -f $folder/complete && $(cat "$folder/complete") == "$pins" ]]; then
    return 0
  fi
  say "bringing CUDA 12 into $folder: $cuda12_package (Debian $cuda12_suite), ${cuda12_headers[*]}"
  rm -rf "$folder" "$downloads"
  mkdir -p "$downloads" || return 1
  quietly cuda12-debian download_from_debian "$downloads" || return 1
  quietly cuda12-unpack dpkg-deb -x "$downloads"/"$cuda12_package"_*.deb "$downloads/debian" || return 1
  local pip=(python3 -m pip install --disable-pip-version-check --no-deps --target)
  quietly cuda12-headers "${pip[@]}" "$downloads/headers" "${cuda12_headers[@]}" || return 1
  quietly cuda12-runtime "${pip[@]}" "$downloads/runtime" "$cuda12_runtime" || return 1
  nccl=$(find_nccl "$folder/nccl") || {
    quietly cuda12-nccl "${pip[@]}" "$downloads/nccl" "$cuda12_nccl" || return 1
    nccl=$downloads/nccl/nvidia/nccl/include
  }
  quietly cuda12-shape shape_cuda12 "$folder" "$downloads" "$nccl" || return 1
  rm -rf "$downloads"
  echo "$pins" >"$folder/complete"
}

# shape_cuda12 FOLDER DOWNLOADS NCCL: gives what was unpacked the shape of an installed toolkit. Returns 1 where anything
# fails or is missing; each command says so itself, for callers ask "||", which turns "set -e" off in here.
shape_cuda12() {
  local folder=$1 downloads=$2 nccl=$3 part
  local usr=$downloads/debian/usr
  mkdir -p "$folder"/{bin,nvvm/bin,include,lib64,nccl} || return 1
  cp -a "$usr"/bin/{cudafe++,ptxas,fatbinary,bin2c,nvlink,cuobjdump} "$usr/lib/$cuda12_package"/bin/{nvcc,crt} \
    "$folder/bin/" || return 1
  cp -a "$usr/lib/$cuda12_package/bin/cicc" "$folder/nvvm/bin/" || return 1
  cp -a "$usr/lib/$cuda12_package/libdevice" "$folder/nvvm/" || return 1
  for part in "$downloads"/headers/nvidia/*/include; do cp -a "$part/." "$folder/include/" || return 1; done
  # CMake takes a folder for the toolkit's only if the shared runtime is in it.
  cp -a "$downloads"/runtime/nvidia/cuda_runtime/lib/libcudart{_static.a,.so.12} "$folder/lib64/" || return 1
  ln -s libcudart.so.12 "$folder/lib64/libcudart.so" || return 1
  cp -a "$nccl/nccl.h" "$folder/nccl/" || return 1
  # Debian's profile names Debian's folders; this one has the shape of NVIDIA's own.
  cat >"$folder/bin/nvcc.profile" <<'EOF' || return 1
TOP                = $(_HERE_)/..
CICC_PATH          = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH              += $(CICC_PATH):$(_HERE_):
INCLUDES          +=  "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64"
EOF
  # A package of the same name may hold other files one day.
  for part in include/{cuda_runtime.h,nvtx3/nvToolsExt.h} lib64/libcudart{_static.a,.so} nccl/nccl.h nvvm/bin/cicc; do
    [[ -f $folder/$part ]] || { echo "what was brought has no $part"; return 1; }
  done
  "$folder/bin/nvcc" --version
}
