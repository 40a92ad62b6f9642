/* Answers as an upstream may send them: see fuzz/message.h. The first byte says whether they are to HEAD ('H'). */
#include "fuzz.h"
#include "message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = input_make(data, n);
    bool to_head = input_byte(&in) == 'H';
    message_fuzz(PARSER_RESPONSE, to_head, input_rest(&in));
    return 0;
}
