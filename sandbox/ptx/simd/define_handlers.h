// Turns the rows of an ops/*.def file into handlers; the file is included twice, once to define, once to
// install. DEFINE_HANDLERS or INSTALL_HANDLERS says which.
#if defined(DEFINE_HANDLERS)
#define UNARY(name, D, A, ...)                        \
  const Instr* name(Warp& w, const Instr* i) {        \
    [[maybe_unused]] const s64 imm = i->imm;          \
    return unary<D, A>(w, i, [imm](A a) LANE_LAMBDA { \
      (void)imm;                                      \
      return D(__VA_ARGS__);                          \
    });                                               \
  }
#define BINARY(name, D, A, B, ...)                                                     \
  const Instr* name(Warp& w, const Instr* i) {                                         \
    return binary<D, A, B>(w, i, [](A a, B b) LANE_LAMBDA { return D(__VA_ARGS__); }); \
  }
#define TERNARY(name, D, A, B, C, ...)                                  \
  const Instr* name(Warp& w, const Instr* i) {                          \
    [[maybe_unused]] const s64 imm = i->imm;                            \
    return ternary<D, A, B, C>(w, i, [imm](A a, B b, C c) LANE_LAMBDA { \
      (void)imm;                                                        \
      return D(__VA_ARGS__);                                            \
    });                                                                 \
  }
#define QUATERNARY(name, D, A, B, C, E, ...)                                                               \
  const Instr* name(Warp& w, const Instr* i) {                                                             \
    return quaternary<D, A, B, C, E>(w, i, [](A a, B b, C c, E e) LANE_LAMBDA { return D(__VA_ARGS__); }); \
  }
#define COMPARE(name, A, ...)                                                          \
  const Instr* name(Warp& w, const Instr* i) {                                         \
    return compare<A>(w, i, [](A a, A b) LANE_LAMBDA -> bool { return __VA_ARGS__; }); \
  }
#define COMPARE1(name, A, ...)                                                       \
  const Instr* name(Warp& w, const Instr* i) {                                       \
    return compare<A>(w, i, [](A a, A) LANE_LAMBDA -> bool { return __VA_ARGS__; }); \
  }
#define SELECT(name, T)                        \
  const Instr* name(Warp& w, const Instr* i) { \
    return select<T>(w, i);                    \
  }
#else
#define UNARY(name, ...) handlers[static_cast<int>(Op::name)] = name;
#define BINARY UNARY
#define TERNARY UNARY
#define QUATERNARY UNARY
#define COMPARE UNARY
#define COMPARE1 UNARY
#define SELECT UNARY
#endif
