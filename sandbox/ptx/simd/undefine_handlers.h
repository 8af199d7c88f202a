// Undoes define_handlers.h.
#undef UNARY
#undef BINARY
#undef TERNARY
#undef QUATERNARY
#undef COMPARE
#undef COMPARE1
#undef SELECT
