// Reads the dynamic section of a loaded object: hash tables, symbols, relocations.
#include "plugin/loaded_object.h"

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace sdp4bit {
namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kBound = R_X86_64_GLOB_DAT, kStored = R_X86_64_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kBound = R_AARCH64_GLOB_DAT,
                        kStored = R_AARCH64_ABS64;
#else
#error "sdp4bit knows the relocations of x86-64 and of aarch64"
#endif

std::uint32_t gnu_hash_of(const char* name) {
  std::uint32_t hash = 5381;
  for (; *name; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

std::uint32_t old_hash_of(const char* name) {
  std::uint32_t hash = 0;
  for (; *name; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    hash = (hash ^ ((hash & 0xf0000000u) >> 24)) & 0x0fffffffu;
  }
  return hash;
}

/// The table that the GNU hash section is.
struct GnuHash {
  explicit GnuHash(const std::uint32_t* words)
      : bucket_count(words[0]),
        first_symbol(words[1]),
        bloom_words(words[2]),
        bloom_shift(words[3]),
        bloom(reinterpret_cast<const ElfW(Addr) *>(words + 4)),
        buckets(reinterpret_cast<const std::uint32_t*>(bloom + bloom_words)),
        chain(buckets + bucket_count) {}
  std::uint32_t bucket_count, first_symbol, bloom_words, bloom_shift;
  const ElfW(Addr) * bloom;
  const std::uint32_t *buckets, *chain;
};

}  // namespace

LoadedObject::LoadedObject(std::uintptr_t base, const char* path, const ElfW(Dyn) * dynamic)
    : base_(base), path_(path ? path : ""), dynamic_(dynamic) {
  // glibc has turned most of these offsets into addresses; where the section is read-only it has not.
  const auto in_memory = [&](std::uintptr_t value) { return value < base_ ? base_ + value : value; };
  for (const ElfW(Dyn)* entry = dynamic; entry->d_tag != DT_NULL; ++entry) {
    const std::uintptr_t pointer = in_memory(entry->d_un.d_ptr);
    switch (entry->d_tag) {
      case DT_STRTAB:
        strings_ = reinterpret_cast<const char*>(pointer);
        break;
      case DT_SYMTAB:
        symbols_ = reinterpret_cast<const ElfW(Sym)*>(pointer);
        break;
      case DT_GNU_HASH:
        gnu_hash_ = reinterpret_cast<const std::uint32_t*>(pointer);
        break;
      case DT_HASH:
        old_hash_ = reinterpret_cast<const std::uint32_t*>(pointer);
        break;
      case DT_JMPREL:
        jump_slots_ = reinterpret_cast<const ElfW(Rela)*>(pointer);
        break;
      case DT_PLTRELSZ:
        jump_slot_bytes_ = entry->d_un.d_val;
        break;
      case DT_RELA:
        relocations_ = reinterpret_cast<const ElfW(Rela)*>(pointer);
        break;
      case DT_RELASZ:
        relocation_bytes_ = entry->d_un.d_val;
        break;
      case DT_SONAME:
        soname_ = entry->d_un.d_val;
        break;
      default:
        break;
    }
  }
}

std::optional<LoadedObject> LoadedObject::at(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || !map || !map->l_ld) {
    return std::nullopt;
  }
  LoadedObject object(map->l_addr, map->l_name, map->l_ld);
  if (!object.strings_ || !object.symbols_) return std::nullopt;
  return object;
}

std::optional<LoadedObject> LoadedObject::of(const dl_phdr_info& info) {
  const ElfW(Dyn)* dynamic = nullptr;
  std::uintptr_t first = UINTPTR_MAX, end = 0;
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info.dlpi_phdr[i];
    const std::uintptr_t start = info.dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
    if (header.p_type == PT_LOAD) {
      first = std::min(first, start);
      end = std::max(end, start + header.p_memsz);
    }
  }
  if (!dynamic || first >= end) return std::nullopt;
  LoadedObject object(info.dlpi_addr, info.dlpi_name, dynamic);
  if (!object.strings_ || !object.symbols_) return std::nullopt;
  object.first_ = first;
  object.bytes_ = end - first;
  return object;
}

std::string LoadedObject::shown_path() const {
  if (*path_) return path_;
  std::array<char, 4096> text;
  const ssize_t length = ::readlink("/proc/self/exe", text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<std::size_t>(length)) : "the program";
}

bool LoadedObject::is_definition(const ElfW(Sym) & symbol) {
  const auto type = ELF64_ST_TYPE(symbol.st_info);
  const auto binding = ELF64_ST_BIND(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && type == STT_FUNC &&
         (binding == STB_GLOBAL || binding == STB_WEAK);
}

std::optional<LoadedObject::Reference> LoadedObject::kind_of(const ElfW(Rela) & relocation) {
  switch (ELF64_R_TYPE(relocation.r_info)) {
    case kJumpSlot:
      return Reference::lazy;
    case kBound:
      return Reference::bound;
    case kStored:
      return relocation.r_addend == 0 ? std::optional(Reference::stored) : std::nullopt;
    default:
      return std::nullopt;
  }
}

void* LoadedObject::defined(const char* name) const {
  const ElfW(Sym)* const symbol = gnu_hash_   ? find_by_gnu_hash(name)
                                  : old_hash_ ? find_by_old_hash(name)
                                              : nullptr;
  return symbol ? address(*symbol) : nullptr;
}

const ElfW(Sym) * LoadedObject::find_by_gnu_hash(const char* name) const {
  const GnuHash table(gnu_hash_);
  if (table.bucket_count == 0) return nullptr;
  constexpr std::uint32_t kBits = 8 * sizeof(ElfW(Addr));
  const std::uint32_t hash = gnu_hash_of(name);
  const ElfW(Addr) word = table.bloom[(hash / kBits) % table.bloom_words];
  if (!((word >> (hash % kBits)) & (word >> ((hash >> table.bloom_shift) % kBits)) & 1)) return nullptr;
  std::uint32_t index = table.buckets[hash % table.bucket_count];
  if (index < table.first_symbol) return nullptr;
  for (;; ++index) {
    const std::uint32_t here = table.chain[index - table.first_symbol];
    const ElfW(Sym)& symbol = symbols_[index];
    if ((here | 1) == (hash | 1) && is_definition(symbol) &&
        std::strcmp(strings_ + symbol.st_name, name) == 0) {
      return &symbol;
    }
    if (here & 1) return nullptr;  // the last of its bucket
  }
}

const ElfW(Sym) * LoadedObject::find_by_old_hash(const char* name) const {
  const std::uint32_t bucket_count = old_hash_[0];
  if (bucket_count == 0) return nullptr;
  const std::uint32_t* const buckets = old_hash_ + 2;
  const std::uint32_t* const chain = buckets + bucket_count;
  for (std::uint32_t index = buckets[old_hash_of(name) % bucket_count]; index != 0; index = chain[index]) {
    const ElfW(Sym)& symbol = symbols_[index];
    if (is_definition(symbol) && std::strcmp(strings_ + symbol.st_name, name) == 0) return &symbol;
  }
  return nullptr;
}

std::uint32_t LoadedObject::symbol_count() const {
  if (old_hash_) return old_hash_[1];
  if (!gnu_hash_) return 0;
  const GnuHash table(gnu_hash_);
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < table.bucket_count; ++i) last = std::max(last, table.buckets[i]);
  if (last < table.first_symbol) return table.first_symbol;
  while (!(table.chain[last - table.first_symbol] & 1)) ++last;
  return last + 1;
}

void for_each_loaded_object(void (*visitor)(const LoadedObject& object, void* context), void* context) {
  struct Visit {
    void (*visitor)(const LoadedObject&, void*);
    void* context;
  } visit{visitor, context};
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        const auto& each = *static_cast<const Visit*>(data);
        if (const auto object = LoadedObject::of(*info)) each.visitor(*object, each.context);
        return 0;
      },
      &visit);
}

unsigned long long loads_so_far() {
  unsigned long long loads = 0;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        *static_cast<unsigned long long*>(data) = info->dlpi_adds;
        return 1;  // the first object knows it
      },
      &loads);
  return loads;
}

}  // namespace sdp4bit
