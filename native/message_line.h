/* message_line: what one line of JSON-RPC is, read byte by byte while the line passes */
#ifndef HOLDFAST_MESSAGE_LINE_H
#define HOLDFAST_MESSAGE_LINE_H

/*
 * The relay (relay.h) passes bytes on at once and keeps no line. So it cannot parse a line when it is whole: this
 * scanner sees each byte once. It knows the keys `method` and `id` of the message itself, and `requestId` of its
 * `params`. It trusts nothing: a line that is no JSON is a line without these keys, and a number that is too long, or a
 * key that is written with escapes, is not recognised.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { METHOD_MAX = 40, KEY_MAX = 12 };

struct message_line {
    /* What the line is, valid when message_line_take() has returned true. Ids are hashes: 0 means none. */
    char method[METHOD_MAX];
    uint64_t id;
    uint64_t request_id;
    bool is_batch;
    bool is_empty;
    /* Where the scanner is. */
    int depth;
    uint64_t objects; /* one bit for each depth below 64: an object, or an array */
    bool in_string;
    bool escaped;
    bool expects_key;
    size_t length; /* of the token */
    uint64_t hash; /* of the token; 0: there is none */
    char token[METHOD_MAX];
    char keys[2][KEY_MAX]; /* of the message, of its params */
};

void message_line_begin(struct message_line *line);
/* Takes one byte. True: it ended the line. The next byte belongs to the next one: message_line_begin(). */
bool message_line_take(struct message_line *line, char byte);

#endif
