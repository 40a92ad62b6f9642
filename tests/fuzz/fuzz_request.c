/* Requests as a client may send them: see fuzz/message.h. */
#include "fuzz.h"
#include "message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    message_fuzz(PARSER_REQUEST, false, slice_make((const char *)data, n));
    return 0;
}
