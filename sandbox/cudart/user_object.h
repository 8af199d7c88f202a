// Objects of the program whose life is tied to graphs: reference counts and the final callback.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>

namespace sandbox::cudart {

class UserObject {
 public:
  UserObject(void* pointer, cudaHostFn_t destroy, unsigned references)
      : pointer_(pointer), destroy_(destroy), references_(references) {}
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;
  ~UserObject() = default;

  void retain(unsigned count);
  /// Calls the program's callback when the last reference goes; throws if there are fewer.
  void release(unsigned count);

 private:
  std::mutex mutex_;
  void* pointer_;
  cudaHostFn_t destroy_;
  unsigned long long references_;
};

/// The references that one graph, or one executable graph, holds.
class UserObjectReferences {
 public:
  UserObjectReferences() = default;
  UserObjectReferences(const UserObjectReferences& other);
  UserObjectReferences& operator=(UserObjectReferences other) noexcept;
  ~UserObjectReferences();

  /// Takes over references that the caller already owns.
  void adopt(const std::shared_ptr<UserObject>& object, unsigned count);
  /// Gives references up; the caller releases them after unlocking. Throws if there are fewer.
  void drop(const std::shared_ptr<UserObject>& object, unsigned count);

 private:
  std::map<std::shared_ptr<UserObject>, unsigned> held_;
};

}  // namespace sandbox::cudart
