// Objects of the program whose life is tied to graphs.
#include "user_object.h"

#include "graph.h"

namespace sandbox::cudart {
namespace {

HandleTable<UserObject>& table() {
  static auto& instance = *new HandleTable<UserObject>;
  return instance;
}

}  // namespace

void UserObject::retain(unsigned count) {
  std::lock_guard lock(mutex_);
  require(references_ > 0);
  references_ += count;
}

void UserObject::release(unsigned count) {
  {
    std::lock_guard lock(mutex_);
    require(references_ >= count);
    references_ -= count;
    if (references_ > 0) return;
  }
  table().remove(this);
  const HostFunctionScope no_calls;
  destroy_(pointer_);
}

UserObjectReferences::UserObjectReferences(const UserObjectReferences& other) : held_(other.held_) {
  for (const auto& [object, count] : held_) object->retain(count);
}

UserObjectReferences& UserObjectReferences::operator=(UserObjectReferences other) noexcept {
  std::swap(held_, other.held_);
  return *this;
}

UserObjectReferences::~UserObjectReferences() {
  for (const auto& [object, count] : held_) object->release(count);
}

void UserObjectReferences::adopt(const std::shared_ptr<UserObject>& object, unsigned count) {
  held_[object] += count;
}

void UserObjectReferences::drop(const std::shared_ptr<UserObject>& object, unsigned count) {
  const auto found = held_.find(object);
  require(found != held_.end() && found->second >= count);
  found->second -= count;
  if (found->second == 0) held_.erase(found);
}

}  // namespace sandbox::cudart

using namespace sandbox::cudart;

extern "C" {

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object_out, void* ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags) {
  return entry([&] {
    enter_process();
    require(object_out != nullptr && destroy != nullptr && initialRefcount > 0);
    require(flags == cudaUserObjectNoDestructorSync);
    auto object = std::make_shared<UserObject>(ptr, destroy, initialRefcount);
    *object_out = reinterpret_cast<cudaUserObject_t>(object.get());
    table().insert(std::move(object));
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  return entry([&] {
    enter_process();
    table().get(object, cudaErrorInvalidValue)->retain(count);
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  return entry([&] {
    enter_process();
    table().get(object, cudaErrorInvalidValue)->release(count);
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count,
                                      unsigned int flags) {
  return entry([&] {
    enter_process();
    require(count > 0 && (flags == 0 || flags == cudaGraphUserObjectMove));
    const auto held = table().get(object, cudaErrorInvalidValue);
    const auto holder = graph_table().get(graph, cudaErrorInvalidValue);
    if (flags == 0) held->retain(count);
    std::lock_guard lock(graph_mutex());
    holder->user_objects.adopt(held, count);
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object, unsigned int count) {
  return entry([&] {
    enter_process();
    const auto held = table().get(object, cudaErrorInvalidValue);
    const auto holder = graph_table().get(graph, cudaErrorInvalidValue);
    {
      std::lock_guard lock(graph_mutex());
      holder->user_objects.drop(held, count);
    }
    held->release(count);
  });
}

}  // extern "C"
