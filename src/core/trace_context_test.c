#include "core/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/check.h"

#define GOOD "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static void only_a_valid_parent_goes_on(void **state)
{
    static const struct {
        const char *text;
        bool is_valid;
    } rows[] = {
        {GOOD, true},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00", true},
        {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", true},
        {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-comes", true},
        {"", false},
        {"00", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", false},
        {"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.more", false},
        {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
        {"0g-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false},
        {"00-00000000000000000000000000000000-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0x", false},
        {"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01", false},
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct trace_context context = {0};

        trace_context_take(&context, STR("traceparent"), str_from(rows[i].text));
        trace_context_take(&context, STR("tracestate"), STR("a=1"));
        trace_context_check(&context);
        if ((context.parent.n > 0) != rows[i].is_valid)
            fail_msg("%s", rows[i].text);
        assert_int_equal(context.state.n, rows[i].is_valid ? 3 : 0);
    }
}

static void the_first_of_a_name_counts_in_whichever_case(void **state)
{
    struct trace_context context = {0};

    (void)state;
    trace_context_take(&context, STR("unit"), STR("C"));
    trace_context_take(&context, STR("TraceParent"), STR(GOOD));
    trace_context_take(&context, STR("traceparent"), STR("other"));
    trace_context_take(&context, STR("TRACESTATE"), STR("a=1,b=2"));
    trace_context_check(&context);
    assert_true(str_equal(context.parent, STR(GOOD)));
    assert_true(str_equal(context.state, STR("a=1,b=2")));
}

static void a_state_that_is_too_long_stays_behind(void **state)
{
    static char text[TRACE_CONTEXT_STATE_BYTES + 1];
    struct trace_context context = {0};

    (void)state;
    memset(text, 'a', sizeof text);
    trace_context_take(&context, STR("traceparent"), STR(GOOD));
    trace_context_take(&context, STR("tracestate"), (struct str){text, sizeof text});
    trace_context_check(&context);
    assert_true(str_equal(context.parent, STR(GOOD)));
    assert_int_equal(context.state.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_valid_parent_goes_on),
        cmocka_unit_test(the_first_of_a_name_counts_in_whichever_case),
        cmocka_unit_test(a_state_that_is_too_long_stays_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
