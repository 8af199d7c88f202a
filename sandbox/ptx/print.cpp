// Formatting as vprintf of the device does it: arguments lie in a buffer, each aligned to its size.
#include "sandbox/ptx/print.h"

#include <cstdio>
#include <cstring>

#include "sandbox/ptx/machine_limits.h"

namespace sandbox::ptx {

void Printer::add(const std::string& text) {
  std::lock_guard lock(mutex_);
  text_ += text;
}

void Printer::flush() {
  std::lock_guard lock(mutex_);
  if (text_.empty()) return;
  std::fwrite(text_.data(), 1, text_.size(), stdout);
  std::fflush(stdout);
  text_.clear();
}

void read_generic(Warp& warp, const Instr* at, std::uint32_t lane, std::uint64_t address, void* to,
                  std::uint32_t bytes) {
  auto* d = static_cast<std::uint8_t*>(to);
  if (address - kLocalWindow < kLocalWindowBytes) {
    const std::uint64_t offset = address - kLocalWindow;
    if (offset + bytes > warp.local_bytes)
      throw_address_fault(kIllegalAddress, lane, "access beyond local memory", offset, bytes);
    for (std::uint64_t k = 0; k < bytes; ++k)
      d[k] = warp.local[(offset + k) / 4 * 128 + 4 * lane + (offset + k) % 4];
    return;
  }
  const auto* host = reinterpret_cast<const std::uint8_t*>(address);
  if (!(host >= warp.shared && host + bytes <= warp.shared + warp.shared_bytes)) {
    std::uint64_t addresses[kLanes] = {};
    addresses[lane] = address;
    check_global(warp, at, addresses, 1u << lane, bytes, false);
  }
  std::memcpy(to, host, bytes);
}

std::string read_string(Warp& warp, const Instr* at, std::uint32_t lane, std::uint64_t address) {
  std::string text;
  for (char c = 0; text.size() < 65536; ++address) {
    read_generic(warp, at, lane, address, &c, 1);
    if (c == '\0') break;
    text += c;
  }
  return text;
}

std::string format_text(Warp& warp, const Instr* at, std::uint32_t lane, std::uint64_t format_at,
                        std::uint64_t arguments) {
  const std::string format = read_string(warp, at, lane, format_at);
  std::string text;
  const auto take = [&](auto& value) {
    constexpr std::uint64_t size = sizeof value;
    arguments = (arguments + size - 1) / size * size;
    read_generic(warp, at, lane, arguments, &value, size);
    arguments += size;
  };
  const auto append = [&](const char* specification, auto value) {
    char buffer[512];
    const int length = std::snprintf(buffer, sizeof buffer, specification, value);
    if (length < static_cast<int>(sizeof buffer)) {
      text.append(buffer, static_cast<std::size_t>(std::max(length, 0)));
      return;
    }
    std::string longer(static_cast<std::size_t>(length) + 1, '\0');
    std::snprintf(longer.data(), longer.size(), specification, value);
    longer.pop_back();
    text += longer;
  };
  for (std::size_t k = 0; k < format.size(); ++k) {
    if (format[k] != '%') {
      text += format[k];
      continue;
    }
    std::string specification = "%";
    bool wide = false;
    for (++k; k < format.size() && std::strchr("-+ #0123456789.*hlLqjzt", format[k]); ++k) {
      if (format[k] == '*') {
        std::int32_t number = 0;
        take(number);
        specification += std::to_string(number);
      } else if (std::strchr("lqjztL", format[k])) {
        wide = true;
      } else if (format[k] != 'h') {
        specification += format[k];
      }
    }
    if (k >= format.size()) break;
    const char conversion = format[k];
    if (conversion == '%') {
      text += '%';
    } else if (std::strchr("diouxX", conversion)) {
      std::uint64_t value = 0;
      if (wide) {
        take(value);
      } else {
        std::uint32_t narrow = 0;
        take(narrow);
        value = std::strchr("di", conversion) ? static_cast<std::uint64_t>(static_cast<std::int32_t>(narrow))
                                              : narrow;
      }
      append((specification + "ll" + conversion).c_str(), static_cast<long long>(value));
    } else if (conversion == 'c') {
      std::int32_t value = 0;
      take(value);
      append((specification + conversion).c_str(), value);
    } else if (std::strchr("eEfFgGaA", conversion)) {
      double value = 0;
      take(value);
      append((specification + conversion).c_str(), value);
    } else if (conversion == 's') {
      std::uint64_t value = 0;
      take(value);
      const std::string string = value ? read_string(warp, at, lane, value) : "(null)";
      append((specification + conversion).c_str(), string.c_str());
    } else if (conversion == 'p') {
      std::uint64_t value = 0;
      take(value);
      append((specification + conversion).c_str(), reinterpret_cast<void*>(value));
    } else {
      text += specification + conversion;
    }
  }
  return text;
}

}  // namespace sandbox::ptx
