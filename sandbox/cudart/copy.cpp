// Copies and fills: what is checked, when they return, and how they run.
#include "copy.h"

#include <algorithm>
#include <cstring>

#include "capture.h"
#include "copy_api.h"
#include "memory_state.h"

namespace sandbox::cudart {
namespace {

std::size_t span_bytes(const Box& box, const Pitch& pitch) {
  return (box.depth - 1) * pitch.slice + (box.height - 1) * pitch.row + box.width;
}

/// Calls `row(destination offset, source offset, bytes)` for the longest contiguous pieces.
template <class Row>
void for_each_row(const Box& box, const Pitch& to, const Pitch& from, Row&& row) {
  const bool rows_touch = box.height == 1 || (to.row == box.width && from.row == box.width);
  const std::size_t slice_bytes = box.width * box.height;
  const bool slices_touch = box.depth == 1 || (to.slice == slice_bytes && from.slice == slice_bytes);
  if (rows_touch && slices_touch) {
    row(std::size_t{0}, std::size_t{0}, slice_bytes * box.depth);
    return;
  }
  for (std::size_t z = 0; z < box.depth; ++z) {
    if (rows_touch) {
      row(z * to.slice, z * from.slice, slice_bytes);
      continue;
    }
    for (std::size_t y = 0; y < box.height; ++y)
      row(z * to.slice + y * to.row, z * from.slice + y * from.row, box.width);
  }
}

std::byte* at(void* base, std::size_t offset) {
  return static_cast<std::byte*>(base) + offset;
}
const std::byte* at(const void* base, std::size_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}

/// Do the sides of the copy fit what the program says about its direction?
void validate_direction(const CopyRequest& request, const char* who) {
  const Place to = place_of(request.destination);
  const Place from = place_of(request.source);
  bool fits = true;
  switch (request.kind) {
    case cudaMemcpyHostToHost:
      fits = on_host(to) && on_host(from);
      break;
    case cudaMemcpyHostToDevice:
      fits = on_device(to) && on_host(from);
      break;
    case cudaMemcpyDeviceToHost:
      fits = on_host(to) && on_device(from);
      break;
    case cudaMemcpyDeviceToDevice:
      fits = on_device(to) && on_device(from);
      break;
    case cudaMemcpyDefault:
      break;
    default:
      fail(cudaErrorInvalidMemcpyDirection);
  }
  if (fits) return;
  fail(cudaErrorInvalidValue, "%s: the direction does not fit the pointers: destination %s; source %s", who,
       describe(request.destination).c_str(), describe(request.source).c_str());
}

bool pageable(const void* address) {
  return place_of(address) == Place::pageable;
}

}  // namespace

CopyRequest CopyRequest::linear(void* destination, const void* source, std::size_t bytes,
                                cudaMemcpyKind kind) {
  return {.destination = destination,
          .source = source,
          .destination_pitch = {bytes, bytes},
          .source_pitch = {bytes, bytes},
          .box = {bytes, 1, 1},
          .kind = kind};
}

void CopyOperation::stage() {
  staged_.resize(request.box.width * request.box.height * request.box.depth);
  const Pitch packed{request.box.width, request.box.width * request.box.height};
  for_each_row(request.box, packed, request.source_pitch,
               [&](std::size_t to, std::size_t from, std::size_t bytes) {
                 std::memcpy(staged_.data() + to, at(request.source, from), bytes);
               });
  request.source = staged_.data();
  request.source_pitch = packed;
}

cudaError_t CopyOperation::execute(Device& device) const {
  if (!may_copy_to(request.destination, span_bytes(request.box, request.destination_pitch), device, who_) ||
      !may_copy_from(request.source, span_bytes(request.box, request.source_pitch), device, who_)) {
    return cudaErrorIllegalAddress;
  }
  for_each_row(request.box, request.destination_pitch, request.source_pitch,
               [&](std::size_t to, std::size_t from, std::size_t bytes) {
                 copy_bytes(at(request.destination, to), at(request.source, from), bytes);
               });
  return cudaSuccess;
}

cudaError_t FillOperation::execute(Device& device) const {
  if (!may_copy_to(request.destination, span_bytes(request.box, request.pitch), device, who_)) {
    return cudaErrorIllegalAddress;
  }
  for_each_row(request.box, request.pitch, request.pitch,
               [&](std::size_t offset, std::size_t, std::size_t bytes) {
                 std::byte* row = at(request.destination, offset);
                 if (request.element_bytes == 1) {
                   std::memset(row, static_cast<int>(request.value), bytes);
                 } else {
                   for (std::size_t i = 0; i < bytes; i += request.element_bytes) {
                     std::memcpy(row + i, &request.value, request.element_bytes);
                   }
                 }
                 mark_written(row, bytes);
               });
  return cudaSuccess;
}

void validate(const CopyRequest& request, const Device& device, const char* who) {
  require(request.destination != nullptr && request.source != nullptr);
  if (request.box.width > request.destination_pitch.row || request.box.width > request.source_pitch.row) {
    fail(cudaErrorInvalidPitchValue);
  }
  validate_direction(request, who);
  require(may_copy_to(request.destination, span_bytes(request.box, request.destination_pitch), device, who));
  require(may_copy_from(request.source, span_bytes(request.box, request.source_pitch), device, who));
}

void validate(const FillRequest& request, const Device& device, const char* who) {
  require(request.destination != nullptr && request.box.width <= request.pitch.row);
  if (pageable(request.destination)) {
    fail(cudaErrorInvalidValue, "%s: %s", who, describe(request.destination).c_str());
  }
  require(may_copy_to(request.destination, span_bytes(request.box, request.pitch), device, who));
}

void copy_async(const CopyRequest& request, cudaStream_t handle, const char* who) {
  Device& current = enter();
  const auto stream = resolve_stream(handle, current);
  if (request.box.empty()) return;
  validate(request, stream->device, who);
  auto operation = std::make_shared<CopyOperation>(request, who);
  stream->device.check();
  if (capture_operation(*stream, operation)) return;
  const bool host_only = on_host(place_of(request.destination)) && on_host(place_of(request.source));
  const bool waits = pageable(request.destination) || (host_only && pageable(request.source));
  if (pageable(request.source) && !waits) operation->stage();
  const auto done = stream->submit(std::move(operation));
  if (waits) {
    done->wait();
    stream->device.check();
  }
}

void copy_now(const CopyRequest& request, cudaStream_t handle, const char* who) {
  Device& current = enter();
  const auto stream = resolve_stream(handle, current);
  refuse_capture(*stream);
  if (request.box.empty()) return;
  validate(request, stream->device, who);
  const bool devices_only =
      place_of(request.destination) == Place::device && place_of(request.source) == Place::device;
  const auto done = stream->submit(std::make_shared<CopyOperation>(request, who));
  if (devices_only) return;
  done->wait();
  stream->device.check();
}

void fill_async(const FillRequest& request, cudaStream_t handle, const char* who) {
  Device& current = enter();
  const auto stream = resolve_stream(handle, current);
  if (request.box.empty()) return;
  validate(request, stream->device, who);
  enqueue(*stream, std::make_shared<FillOperation>(request, who));
}

void fill_now(const FillRequest& request, cudaStream_t handle, const char* who) {
  Device& current = enter();
  const auto stream = resolve_stream(handle, current);
  refuse_capture(*stream);
  if (request.box.empty()) return;
  validate(request, stream->device, who);
  const auto done = stream->submit(std::make_shared<FillOperation>(request, who));
  if (place_of(request.destination) == Place::pinned) done->wait();
}

CopyRequest from_3d(const cudaMemcpy3DParms& parameters) {
  if (parameters.srcArray != nullptr || parameters.dstArray != nullptr) {
    fail(cudaErrorNotSupported, "CUDA arrays are not implemented");
  }
  const auto& from = parameters.srcPtr;
  const auto& to = parameters.dstPtr;
  const auto& extent = parameters.extent;
  // A pitch of rows also fixes the pitch of slices: ysize rows each.
  return {.destination = at(to.ptr, (parameters.dstPos.z * to.ysize + parameters.dstPos.y) * to.pitch +
                                        parameters.dstPos.x),
          .source = at(from.ptr, (parameters.srcPos.z * from.ysize + parameters.srcPos.y) * from.pitch +
                                     parameters.srcPos.x),
          .destination_pitch = {to.pitch, to.pitch * to.ysize},
          .source_pitch = {from.pitch, from.pitch * from.ysize},
          .box = {extent.width, extent.height, extent.depth},
          .kind = parameters.kind};
}

CopyRequest from_3d_peer(const cudaMemcpy3DPeerParms& parameters) {
  (void)device_at(parameters.srcDevice);
  (void)device_at(parameters.dstDevice);
  cudaMemcpy3DParms same{};
  same.srcArray = parameters.srcArray;
  same.srcPos = parameters.srcPos;
  same.srcPtr = parameters.srcPtr;
  same.dstArray = parameters.dstArray;
  same.dstPos = parameters.dstPos;
  same.dstPtr = parameters.dstPtr;
  same.extent = parameters.extent;
  same.kind = cudaMemcpyDefault;
  return from_3d(same);
}

}  // namespace sandbox::cudart
