// The argument lists of CUDA's copies and fills as requests; shared by the default and the per-thread
// entries.
#pragma once

#include "copy.h"

namespace sandbox::cudart {

CopyRequest plane(void* dst, std::size_t dpitch, const void* src, std::size_t spitch, std::size_t width,
                  std::size_t height, cudaMemcpyKind kind);
CopyRequest to_symbol(const void* symbol, const void* src, std::size_t count, std::size_t offset,
                      cudaMemcpyKind kind);
CopyRequest from_symbol(void* dst, const void* symbol, std::size_t count, std::size_t offset,
                        cudaMemcpyKind kind);
CopyRequest from_3d_peer(const cudaMemcpy3DPeerParms& parameters);

FillRequest fill_line(void* address, int value, std::size_t bytes);
FillRequest fill_plane(void* address, std::size_t pitch, int value, std::size_t width, std::size_t height);
FillRequest fill_box(const cudaPitchedPtr& to, int value, const cudaExtent& extent);

}  // namespace sandbox::cudart
