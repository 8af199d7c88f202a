// The parser of module level: variables, functions and where their bodies are.
#include "sandbox/ptx/declarations.h"
#include "sandbox/ptx/machine.h"
#include "sandbox/ptx/syntax.h"

namespace sandbox::ptx {
namespace {

struct Linkage {
  bool visible = false;
  bool external = false;
};

class ImageParser {
 public:
  explicit ImageParser(Image& image) : image_(image), lexer_(image.text) {}

  void parse() {
    Linkage linkage;
    while (lexer_.peek().kind != Token::Kind::end) {
      if (lexer_.accept(';')) continue;
      if (lexer_.peek().kind != Token::Kind::directive) lexer_.fail("expected a directive");
      const std::string_view word = lexer_.next().text;
      if (word == "visible" || word == "weak" || word == "common") {
        linkage.visible = true;
      } else if (word == "extern") {
        linkage.external = true;
      } else {
        directive(word, linkage);
        linkage = {};
      }
    }
  }

 private:
  void directive(std::string_view word, Linkage linkage) {
    if (word == "func" || word == "entry") return function(word == "entry", linkage);
    if (const auto space = space_of(word)) return variables(*space, linkage);
    if (word == "version") {
      lexer_.next();
    } else if (word == "target") {
      const Token target = lexer_.expect_word();
      if (target.text.starts_with("sm_"))
        image_.target = std::atoi(std::string(target.text.substr(3)).c_str());
      while (lexer_.accept(',')) lexer_.next();
    } else if (word == "address_size") {
      if (parse_integer(lexer_) != 64) lexer_.fail("only 64-bit addresses are supported");
    } else if (word == "file") {
      const auto number = static_cast<unsigned>(parse_integer(lexer_));
      image_.files[number] = lexer_.next().text;
      while (lexer_.accept(',')) parse_integer(lexer_);
    } else if (word == "section") {
      lexer_.next();
      std::uint32_t line = 0;
      if (!lexer_.peek().is('{')) lexer_.next();
      lexer_.skip_braces(line);
    } else if (word == "pragma") {
      lexer_.next();
    } else if (word == "alias") {
      const auto name = lexer_.expect_word().text;
      lexer_.expect(',');
      const auto target = lexer_.expect_word().text;
      const auto found = image_.function_by_name.find(target);
      if (found == image_.function_by_name.end()) lexer_.fail("alias of an unknown function");
      image_.function_by_name[name] = found->second;
    } else {
      lexer_.fail("unknown directive ." + std::string(word));
    }
  }

  void variables(Space space, Linkage linkage) {
    for (auto& variable : parse_variables(lexer_, space, true)) {
      variable->external = linkage.external;
      variable->visible = linkage.visible;
      variable->image = &image_;
      Variable*& known = image_.variable_by_name[variable->name];
      if (!known || !variable->external) known = variable.get();
      image_.variables.push_back(std::move(variable));
    }
    lexer_.expect(';');
  }

  void function(bool entry, Linkage linkage) {
    skip_attribute();
    auto returns = parse_parameters(lexer_);
    const auto name = lexer_.expect_word().text;
    Function*& function = image_.function_by_name[name];
    if (!function) {
      image_.functions.push_back(std::make_unique<Function>());
      function = image_.functions.back().get();
      function->name = name;
      function->image = &image_;
    }
    function->entry = entry;
    function->visible |= linkage.visible;
    function->returns = std::move(returns);
    function->parameters = parse_parameters(lexer_);
    attributes(*function);
    if (lexer_.accept(';')) return;
    function->text = lexer_.skip_braces(function->first_line);
    function->defined = true;
  }

  void skip_attribute() {
    if (!lexer_.peek().is_directive("attribute")) return;
    lexer_.next();
    lexer_.expect('(');
    while (!lexer_.accept(')')) lexer_.next();
  }

  void attributes(Function& function) {
    while (lexer_.peek().kind == Token::Kind::directive) {
      const std::string_view word = lexer_.next().text;
      if (word == "maxntid" || word == "reqntid") {
        std::int64_t threads = parse_integer(lexer_);
        while (lexer_.accept(',')) threads *= parse_integer(lexer_);
        function.max_threads = static_cast<int>(threads);
      } else if (word == "pragma") {
        lexer_.next();
        lexer_.accept(';');
      } else if (word == "noreturn" || word == "explicitcluster" || word == "blocksareclusters") {
        continue;
      } else if (word == "minnctapersm" || word == "maxnctapersm" || word == "maxnreg" ||
                 word == "maxclusterrank" || word == "reqnctapercluster" || word == "abi_preserve" ||
                 word == "abi_preserve_control") {
        parse_integer(lexer_);
        while (lexer_.accept(',')) parse_integer(lexer_);
      } else {
        lexer_.fail("unknown directive ." + std::string(word) + " of a function");
      }
    }
  }

  Image& image_;
  Lexer lexer_;
};

}  // namespace

std::unique_ptr<Image> parse_image(std::string text) {
  auto image = std::make_unique<Image>();
  image->text = std::move(text);
  ImageParser(*image).parse();
  return image;
}

const Body& Function::body() const {
  std::call_once(parsed_, [this] { body_ = parse_body(*this); });
  return *body_;
}

}  // namespace sandbox::ptx
