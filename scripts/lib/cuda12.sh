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
# cannot be had; build/log/cuda12-*.log say why.
bring_cuda12() {
  local folder=$1 downloads=$1.downloads
  [[ ! -f $folder/complete ]] || return 0
  say "bringing CUDA 12 into $folder: $cuda12_package (Debian $cuda12_suite), ${cuda12_headers[*]}"
  rm -rf "$folder" "$downloads"
  mkdir -p "$downloads" "$folder"/{bin,nvvm/bin,include,lib64,nccl}
  quietly cuda12-debian download_from_debian "$downloads" || return 1
  dpkg-deb -x "$downloads"/"$cuda12_package"_*.deb "$downloads/debian" || return 1
  local pip=(python3 -m pip install --disable-pip-version-check --no-deps --target)
  quietly cuda12-headers "${pip[@]}" "$downloads/headers" "${cuda12_headers[@]}" || return 1
  quietly cuda12-runtime "${pip[@]}" "$downloads/runtime" "$cuda12_runtime" || return 1
  local nccl
  nccl=$(find_nccl "$folder/nccl") || {
    quietly cuda12-nccl "${pip[@]}" "$downloads/nccl" "$cuda12_nccl" || return 1
    nccl=$downloads/nccl/nvidia/nccl/include
  }
  local usr=$downloads/debian/usr
  cp -a "$usr"/bin/{cudafe++,ptxas,fatbinary,bin2c,nvlink,cuobjdump} "$usr"/lib/$cuda12_package/bin/{nvcc,crt} "$folder/bin/"
  cp -a "$usr/lib/$cuda12_package/bin/cicc" "$folder/nvvm/bin/"
  cp -a "$usr/lib/$cuda12_package/libdevice" "$folder/nvvm/"
  local headers
  for headers in "$downloads"/headers/nvidia/*/include; do cp -a "$headers/." "$folder/include/"; done
  # CMake takes a folder for the toolkit's only if the shared runtime is in it.
  cp -a "$downloads"/runtime/nvidia/cuda_runtime/lib/libcudart{_static.a,.so.12} "$folder/lib64/"
  ln -s libcudart.so.12 "$folder/lib64/libcudart.so"
  cp -a "$nccl/nccl.h" "$folder/nccl/"
  # Debian's profile names Debian's folders; this one has the shape of NVIDIA's own.
  cat >"$folder/bin/nvcc.profile" <<'EOF'
TOP                = $(_HERE_)/..
CICC_PATH          = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH              += $(CICC_PATH):$(_HERE_):
INCLUDES          +=  "-I$(TOP)/include" $(_SPACE_)
LIBRARIES         =+ $(_SPACE_) "-L$(TOP)/lib64"
EOF
  rm -rf "$downloads"
  "$folder/bin/nvcc" --version >"$folder/complete" || { rm -f "$folder/complete"; return 1; }
}
