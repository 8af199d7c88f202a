// Copies and fills as operations: boxes of rows, checked when they are submitted and again when they run.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "operation.h"
#include "stream.h"

namespace sandbox::cudart {

/// width bytes x height rows x depth slices.
struct Box {
  std::size_t width = 0, height = 1, depth = 1;
  bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

struct Pitch {
  std::size_t row = 0, slice = 0;
};

struct CopyRequest {
  void* destination = nullptr;
  const void* source = nullptr;
  Pitch destination_pitch, source_pitch;
  Box box;
  cudaMemcpyKind kind = cudaMemcpyDefault;

  static CopyRequest linear(void* destination, const void* source, std::size_t bytes, cudaMemcpyKind kind);
};

class CopyOperation final : public Operation {
 public:
  CopyOperation(const CopyRequest& request_, const char* who) : request(request_), who_(who) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeMemcpy; }
  cudaError_t execute(Device& device) const override;
  /// Reads the source now, into memory of its own.
  void stage();
  CopyRequest request;

 private:
  const char* who_;
  std::vector<std::byte> staged_;
};

struct FillRequest {
  void* destination = nullptr;
  Pitch pitch;
  Box box;
  unsigned value = 0;
  unsigned element_bytes = 1;
};

class FillOperation final : public Operation {
 public:
  FillOperation(const FillRequest& request_, const char* who) : request(request_), who_(who) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeMemset; }
  cudaError_t execute(Device& device) const override;
  const FillRequest request;

 private:
  const char* who_;
};

/// Pointers, directions and bounds; throws the code CUDA gives.
void validate(const CopyRequest& request, const Device& device, const char* who);
void validate(const FillRequest& request, const Device& device, const char* who);

/// Asynchronous copy: returns when pageable memory, if any is involved, has been read or written.
void copy_async(const CopyRequest& request, cudaStream_t stream, const char* who);
/// Synchronous copy; between device addresses it returns at once, like CUDA's.
void copy_now(const CopyRequest& request, cudaStream_t stream, const char* who);
void fill_async(const FillRequest& request, cudaStream_t stream, const char* who);
void fill_now(const FillRequest& request, cudaStream_t stream, const char* who);

/// Turns the parameters of a 3D copy (linear memory only) into a request.
CopyRequest from_3d(const cudaMemcpy3DParms& parameters);

}  // namespace sandbox::cudart
