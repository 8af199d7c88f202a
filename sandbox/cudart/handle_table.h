// Live handles of one kind: a stale or foreign handle is found out instead of being dereferenced.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <shared_mutex>
#include <unordered_map>

#include "error.h"

namespace sandbox::cudart {

template <class Object>
class HandleTable {
 public:
  void insert(std::shared_ptr<Object> object) {
    std::lock_guard lock(mutex_);
    const void* key = object.get();
    objects_.emplace(key, std::move(object));
  }
  /// nullptr if there is no such handle.
  std::shared_ptr<Object> find(const void* handle) const {
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> get(const void* handle,
                              cudaError_t otherwise = cudaErrorInvalidResourceHandle) const {
    auto object = find(handle);
    if (object == nullptr) fail(otherwise);
    return object;
  }
  std::shared_ptr<Object> remove(const void* handle, cudaError_t otherwise = cudaErrorInvalidResourceHandle) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) fail(otherwise);
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<Object>> objects_;
};

}  // namespace sandbox::cudart
