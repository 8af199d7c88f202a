// One object that the loader has mapped, read where it lies: its names, what it defines, what it refers to.
//
// Nothing here calls the loader except for_each_loaded_object() and at(), so the rest may run inside of
// for_each_loaded_object()'s visitor, where a call of dlsym or dladdr could deadlock with another thread's
// dlopen.
#pragma once

#include <link.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace sdp4bit {

class LoadedObject {
 public:
  /// The object that holds an address, if any does.
  [[nodiscard]] static std::optional<LoadedObject> at(const void* address);
  [[nodiscard]] static std::optional<LoadedObject> of(const dl_phdr_info& info);

  /// As the loader knows it; "" for the program itself.
  [[nodiscard]] const char* path() const { return path_; }
  /// For people: the program's path where path() is "".
  [[nodiscard]] std::string shown_path() const;
  [[nodiscard]] const char* soname() const { return soname_ ? strings_ + soname_ : ""; }
  /// The same for two views of one object, different for two objects.
  [[nodiscard]] const void* identity() const { return dynamic_; }
  /// Whether an address lies in it; known only to objects made by of().
  [[nodiscard]] bool holds(std::uintptr_t address) const { return address - first_ < bytes_; }

  /// The address of a function that this very object defines and exports, else null.
  [[nodiscard]] void* defined(const char* name) const;

  /// Calls visitor(name, address) for each exported function whose name starts so.
  template <typename Visitor>
  void for_each_defined(std::string_view prefix, Visitor&& visitor) const {
    for (std::uint32_t i = 1, count = symbol_count(); i < count; ++i) {
      const ElfW(Sym)& symbol = symbols_[i];
      const char* const name = strings_ + symbol.st_name;
      if (is_definition(symbol) && std::string_view(name).starts_with(prefix)) visitor(name, address(symbol));
    }
  }

  /// How an object refers to a function of another one.
  enum class Reference : std::uint8_t { lazy, bound, stored };
  /// Calls visitor(name, slot, kind) for each word that the loader fills, or has filled, with the address of
  /// a named function.
  template <typename Visitor>
  void for_each_reference(Visitor&& visitor) const {
    visit(jump_slots_, jump_slot_bytes_, visitor);
    visit(relocations_, relocation_bytes_, visitor);
  }

 private:
  LoadedObject(std::uintptr_t base, const char* path, const ElfW(Dyn) * dynamic);
  [[nodiscard]] static bool is_definition(const ElfW(Sym) & symbol);
  [[nodiscard]] static std::optional<Reference> kind_of(const ElfW(Rela) & relocation);
  [[nodiscard]] void* address(const ElfW(Sym) & symbol) const {
    return reinterpret_cast<void*>(base_ + symbol.st_value);
  }
  [[nodiscard]] std::uint32_t symbol_count() const;
  [[nodiscard]] const ElfW(Sym) * find_by_gnu_hash(const char* name) const;
  [[nodiscard]] const ElfW(Sym) * find_by_old_hash(const char* name) const;

  template <typename Visitor>
  void visit(const ElfW(Rela) * first, std::size_t bytes, Visitor& visitor) const {
    for (std::size_t i = 0; i < bytes / sizeof *first; ++i) {
      const std::optional<Reference> kind = kind_of(first[i]);
      const auto symbol = static_cast<std::uint32_t>(ELF64_R_SYM(first[i].r_info));
      if (!kind || symbol == 0) continue;
      visitor(static_cast<const char*>(strings_ + symbols_[symbol].st_name),
              reinterpret_cast<std::uintptr_t*>(base_ + first[i].r_offset), *kind);
    }
  }

  std::uintptr_t base_;
  const char* path_;
  const ElfW(Dyn) * dynamic_;
  std::uintptr_t first_ = 0;
  std::uintptr_t bytes_ = 0;
  const char* strings_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const std::uint32_t* gnu_hash_ = nullptr;
  const std::uint32_t* old_hash_ = nullptr;
  const ElfW(Rela) * jump_slots_ = nullptr;
  std::size_t jump_slot_bytes_ = 0;
  const ElfW(Rela) * relocations_ = nullptr;
  std::size_t relocation_bytes_ = 0;
  std::size_t soname_ = 0;
};

/// Calls visitor(object) for all loaded objects in the order of their loading, with the loader's list locked.
/// The visitor must not throw and must not call the loader.
void for_each_loaded_object(void (*visitor)(const LoadedObject& object, void* context), void* context);
template <typename Visitor>
void for_each_loaded_object(Visitor&& visitor) {
  for_each_loaded_object(
      [](const LoadedObject& object, void* context) {
        (*static_cast<std::remove_reference_t<Visitor>*>(context))(object);
      },
      &visitor);
}

/// Grows whenever an object was loaded.
[[nodiscard]] unsigned long long loads_so_far();

}  // namespace sdp4bit
