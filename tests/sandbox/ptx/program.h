// Loads an image into the machine, holds its arrays and launches its kernels: what every test here needs.
#pragma once

#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sandbox/ptx/address_space.h"
#include "sandbox/ptx/machine.h"

namespace ptx_test {

using sandbox::ptx::AddressSpace;
using sandbox::ptx::Dim3;
using sandbox::ptx::Fault;
using sandbox::ptx::FaultKind;
using sandbox::ptx::KernelCounters;
using sandbox::ptx::MemoryKind;

/// An array in emulated device memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    void* memory = AddressSpace::instance().allocate(bytes(), 0, MemoryKind::device);
    if (memory == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(memory);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) { write(values); }
  DeviceArray(std::size_t count, T value) : DeviceArray(std::vector<T>(count, value)) {}
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() {
    if (data_ != nullptr) AddressSpace::instance().release(data_);
  }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }
  const T& operator[](std::size_t index) const { return data_[index]; }
  std::vector<T> values() const { return std::vector<T>(data_, data_ + count_); }
  void write(const std::vector<T>& values) {
    std::memcpy(data_, values.data(), values.size() * sizeof(T));
    AddressSpace::instance().mark_written(data_, values.size() * sizeof(T));
  }

 private:
  std::size_t bytes() const { return count_ == 0 ? 1 : count_ * sizeof(T); }
  T* data_ = nullptr;
  std::size_t count_;
};

/// One loaded image.
class Program {
 public:
  static Program from_text(const std::string& text) {
    return Program(std::vector<std::byte>(reinterpret_cast<const std::byte*>(text.data()),
                                          reinterpret_cast<const std::byte*>(text.data() + text.size())));
  }
  /// A file that the build made from programs/, such as "memory.ptx".
  static Program from_file(const std::string& file) {
    std::ifstream stream(PTX_TEST_IMAGES "/" + file, std::ios::binary);
    if (!stream) throw std::runtime_error("no image " + file);
    const std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
    return from_text(text);
  }

  sandbox::ptx::Module& module() { return *module_; }
  sandbox::ptx::Kernel& kernel(const std::string& name) {
    auto* found = module_->kernel(name);
    if (found == nullptr) throw std::runtime_error("no kernel " + name);
    return *found;
  }

  struct Shape {
    Dim3 grid, block;
    std::size_t dynamic_shared_bytes = 0;
  };

  /// Runs a kernel and returns its fault, if any.
  template <class... Arguments>
  std::optional<Fault> try_launch(const std::string& name, Shape shape, Arguments... arguments) {
    return try_launch_at(name, shape, {static_cast<const void*>(&arguments)...});
  }
  /// The same with the addresses of the arguments.
  std::optional<Fault> try_launch_at(const std::string& name, Shape shape,
                                     const std::vector<const void*>& addresses) {
    auto& found = kernel(name);
    std::vector<void*> writable;
    for (const void* address : addresses) writable.push_back(const_cast<void*>(address));
    const auto packed = sandbox::ptx::pack_arguments(found, writable.data());
    sandbox::ptx::Launch launch;
    launch.grid = shape.grid;
    launch.block = shape.block;
    launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    launch.arguments = packed;
    return sandbox::ptx::run(found, launch);
  }
  /// Runs a kernel that must not fault.
  template <class... Arguments>
  void launch(const std::string& name, Shape shape, Arguments... arguments) {
    if (auto fault = try_launch(name, shape, arguments...)) throw std::runtime_error(fault->message);
  }

 private:
  explicit Program(std::vector<std::byte> image)
      : image_(std::move(image)), module_(sandbox::ptx::Module::from_image(image_)) {}
  std::vector<std::byte> image_;
  std::shared_ptr<sandbox::ptx::Module> module_;
};

inline Program::Shape threads(unsigned blocks, unsigned block_threads, std::size_t shared_bytes = 0) {
  return {Dim3{blocks, 1, 1}, Dim3{block_threads, 1, 1}, shared_bytes};
}

}  // namespace ptx_test
