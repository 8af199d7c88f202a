// The copies and fills of CUDA in their one- and two-dimensional forms, to and from symbols and between
// devices.
#include "copy_api.h"
#include "capture.h"
#include "copy.h"
#include "registry.h"

namespace sandbox::cudart {

CopyRequest plane(void* dst, std::size_t dpitch, const void* src, std::size_t spitch, std::size_t width,
                  std::size_t height, cudaMemcpyKind kind) {
  return {.destination = dst,
          .source = src,
          .destination_pitch = {dpitch, dpitch * height},
          .source_pitch = {spitch, spitch * height},
          .box = {width, height, 1},
          .kind = kind};
}

FillRequest fill_line(void* address, int value, std::size_t bytes) {
  return {.destination = address,
          .pitch = {bytes, bytes},
          .box = {bytes, 1, 1},
          .value = static_cast<unsigned char>(value),
          .element_bytes = 1};
}

FillRequest fill_plane(void* address, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  return {.destination = address,
          .pitch = {pitch, pitch * height},
          .box = {width, height, 1},
          .value = static_cast<unsigned char>(value),
          .element_bytes = 1};
}

FillRequest fill_box(const cudaPitchedPtr& to, int value, const cudaExtent& extent) {
  return {.destination = to.ptr,
          .pitch = {to.pitch, to.pitch * to.ysize},
          .box = {extent.width, extent.height, extent.depth},
          .value = static_cast<unsigned char>(value),
          .element_bytes = 1};
}

namespace {

std::byte* inside_symbol(const void* symbol, std::size_t count, std::size_t offset) {
  const auto variable = resolve_symbol(symbol, enter().index);
  require(offset <= variable.bytes && count <= variable.bytes - offset);
  return static_cast<std::byte*>(variable.address) + offset;
}

}  // namespace

CopyRequest to_symbol(const void* symbol, const void* src, std::size_t count, std::size_t offset,
                      cudaMemcpyKind kind) {
  if (kind != cudaMemcpyHostToDevice && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
    fail(cudaErrorInvalidMemcpyDirection);
  }
  return CopyRequest::linear(inside_symbol(symbol, count, offset), src, count, kind);
}

CopyRequest from_symbol(void* dst, const void* symbol, std::size_t count, std::size_t offset,
                        cudaMemcpyKind kind) {
  if (kind != cudaMemcpyDeviceToHost && kind != cudaMemcpyDeviceToDevice && kind != cudaMemcpyDefault) {
    fail(cudaErrorInvalidMemcpyDirection);
  }
  return CopyRequest::linear(dst, inside_symbol(symbol, count, offset), count, kind);
}

}  // namespace sandbox::cudart

using namespace sandbox::cudart;

extern "C" {

cudaError_t cudaMemcpy(void* dst, const void* src, size_t count, cudaMemcpyKind kind) {
  return entry([&] { copy_now(CopyRequest::linear(dst, src, count, kind), nullptr, "cudaMemcpy"); });
}

cudaError_t cudaMemcpyAsync(void* dst, const void* src, size_t count, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return entry([&] { copy_async(CopyRequest::linear(dst, src, count, kind), stream, "cudaMemcpyAsync"); });
}

cudaError_t cudaMemcpy2D(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                         size_t height, cudaMemcpyKind kind) {
  return entry(
      [&] { copy_now(plane(dst, dpitch, src, spitch, width, height, kind), nullptr, "cudaMemcpy2D"); });
}

cudaError_t cudaMemcpy2DAsync(void* dst, size_t dpitch, const void* src, size_t spitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  return entry(
      [&] { copy_async(plane(dst, dpitch, src, spitch, width, height, kind), stream, "cudaMemcpy2DAsync"); });
}

cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  return entry([&] {
    require(p != nullptr);
    copy_now(from_3d(*p), nullptr, "cudaMemcpy3D");
  });
}

cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  return entry([&] {
    require(p != nullptr);
    copy_async(from_3d(*p), stream, "cudaMemcpy3DAsync");
  });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t count, size_t offset,
                               cudaMemcpyKind kind) {
  return entry([&] { copy_now(to_symbol(symbol, src, count, offset, kind), nullptr, "cudaMemcpyToSymbol"); });
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
  return entry(
      [&] { copy_async(to_symbol(symbol, src, count, offset, kind), stream, "cudaMemcpyToSymbolAsync"); });
}

cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t count, size_t offset,
                                 cudaMemcpyKind kind) {
  return entry(
      [&] { copy_now(from_symbol(dst, symbol, count, offset, kind), nullptr, "cudaMemcpyFromSymbol"); });
}

cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
  return entry([&] {
    copy_async(from_symbol(dst, symbol, count, offset, kind), stream, "cudaMemcpyFromSymbolAsync");
  });
}

/// Ordered with everything on both devices, before and after.
cudaError_t cudaMemcpyPeer(void* dst, int dstDevice, const void* src, int srcDevice, size_t count) {
  return entry([&] {
    Device& current = enter();
    Device& to = device_at(dstDevice);
    Device& from = device_at(srcDevice);
    if (count == 0) return;
    const auto request = CopyRequest::linear(dst, src, count, cudaMemcpyDeviceToDevice);
    validate(request, current, "cudaMemcpyPeer");
    Completions before = to.tails();
    for (auto& point : from.tails()) before.push_back(std::move(point));
    const auto done = enqueue_now(
        *current.legacy(), std::make_shared<CopyOperation>(request, "cudaMemcpyPeer"), std::move(before));
    for (Device* device : {&to, &from}) {
      if (device != &current) enqueue_now(*device->legacy(), std::make_shared<EmptyOperation>(), {done});
    }
  });
}

cudaError_t cudaMemcpyPeerAsync(void* dst, int dstDevice, const void* src, int srcDevice, size_t count,
                                cudaStream_t stream) {
  return entry([&] {
    enter_process();
    (void)device_at(dstDevice);
    (void)device_at(srcDevice);
    copy_async(CopyRequest::linear(dst, src, count, cudaMemcpyDeviceToDevice), stream, "cudaMemcpyPeerAsync");
  });
}

cudaError_t cudaMemcpy3DPeer(const cudaMemcpy3DPeerParms* p) {
  return entry([&] {
    require(p != nullptr);
    copy_now(from_3d_peer(*p), nullptr, "cudaMemcpy3DPeer");
  });
}

cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  return entry([&] {
    require(p != nullptr);
    copy_async(from_3d_peer(*p), stream, "cudaMemcpy3DPeerAsync");
  });
}

cudaError_t cudaMemset(void* devPtr, int value, size_t count) {
  return entry([&] { fill_now(fill_line(devPtr, value, count), nullptr, "cudaMemset"); });
}

cudaError_t cudaMemsetAsync(void* devPtr, int value, size_t count, cudaStream_t stream) {
  return entry([&] { fill_async(fill_line(devPtr, value, count), stream, "cudaMemsetAsync"); });
}

cudaError_t cudaMemset2D(void* devPtr, size_t pitch, int value, size_t width, size_t height) {
  return entry([&] { fill_now(fill_plane(devPtr, pitch, value, width, height), nullptr, "cudaMemset2D"); });
}

cudaError_t cudaMemset2DAsync(void* devPtr, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream) {
  return entry(
      [&] { fill_async(fill_plane(devPtr, pitch, value, width, height), stream, "cudaMemset2DAsync"); });
}

cudaError_t cudaMemset3D(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent) {
  return entry([&] { fill_now(fill_box(pitchedDevPtr, value, extent), nullptr, "cudaMemset3D"); });
}

cudaError_t cudaMemset3DAsync(cudaPitchedPtr pitchedDevPtr, int value, cudaExtent extent,
                              cudaStream_t stream) {
  return entry([&] { fill_async(fill_box(pitchedDevPtr, value, extent), stream, "cudaMemset3DAsync"); });
}

}  // extern "C"
