/* check: assertions about our own code, never about bytes from outside.
 *   ASSERT(x)   always on; prints the expression, the place and a backtrace, then aborts.
 *   DASSERT(x)  for costly checks; on in sanitizer and fuzz builds (MILLRACE_DEBUG_ASSERTS) only. */
#pragma once

#include <assert.h> /* static_assert */
#include <stddef.h>

#define ASSERT(x) ((x) ? (void)0 : check_failed(#x, __FILE__, __LINE__))

#ifdef MILLRACE_DEBUG_ASSERTS
#define DASSERT(x) ASSERT(x)
#else
#define DASSERT(x) ((void)0)
#endif

#define ARRAY_LEN(a) (sizeof(a) / sizeof *(a))

/* The object that holds `member` at `ptr`. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Prints to stderr and aborts. Any thread. */
void check_failed(const char *expression, const char *file, int line) __attribute__((noreturn, cold));
