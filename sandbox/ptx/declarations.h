// Parsing of what module level and bodies share: variable declarations and their initializers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sandbox/ptx/lexer.h"
#include "sandbox/ptx/syntax.h"

namespace sandbox::ptx {

/// The space that a directive opens (.global, .param, ...).
std::optional<Space> space_of(std::string_view directive);
/// The variables of one declaration behind its space directive, up to the closing ';', ',' or ')' (not
/// taken).
std::vector<std::unique_ptr<Variable>> parse_variables(Lexer& lexer, Space space, bool list);
/// "(" .param ..., .param ... ")"; empty where there is no "(".
std::vector<std::unique_ptr<Variable>> parse_parameters(Lexer& lexer);
/// An integer with its sign; constant expressions of +, -, * and parentheses are evaluated.
std::int64_t parse_integer(Lexer& lexer);

}  // namespace sandbox::ptx
