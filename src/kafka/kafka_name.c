#include "kafka/kafka_name.h"

static bool is_legal_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

bool kafka_name_is_legal(struct str name)
{
    if (name.n == 0 || name.n > KAFKA_NAME_MAX_BYTES || str_equal(name, STR(".")) || str_equal(name, STR("..")))
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (!is_legal_char(name.p[i]))
            return false;
    return true;
}
