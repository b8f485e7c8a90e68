/* decode: what every sans-I/O decoder answers. */
#pragma once

enum decode {
    DECODE_MORE, /* nothing wrong so far: call again with more bytes */
    DECODE_DONE, /* one unit is complete and its fields are set */
    DECODE_BAD,  /* the peer broke the protocol; the decoder says which rule by a typed reason */
};
