/* message_line: what one line of JSON-RPC is, read byte by byte while the line passes */
#include "message_line.h"

#include <string.h>

#define HASH_SEED 14695981039346656037u /* FNV-1a */
#define HASH_PRIME 1099511628211u
enum { DEPTHS = 64, OF_MESSAGE = 1, OF_PARAMS = 2 };

void message_line_begin(struct message_line *line) { *line = (struct message_line){.is_empty = true}; }

static bool is_in_object(const struct message_line *line) {
    return line->depth > 0 && line->depth < DEPTHS && (line->objects >> line->depth & 1) != 0;
}

static void add(struct message_line *line, char byte) {
    if (line->hash == 0)
        line->hash = HASH_SEED;
    line->hash = (line->hash ^ (unsigned char)byte) * HASH_PRIME;
    if (line->length < sizeof line->token - 1)
        line->token[line->length] = byte;
    line->length++;
}

static void forget_token(struct message_line *line) {
    line->length = 0;
    line->hash = 0;
}

static bool token_is_whole(const struct message_line *line, size_t room) { return line->length < room; }

static bool is_at(const struct message_line *line, int depth, const char *key) {
    return line->depth == depth && strcmp(line->keys[depth - 1], key) == 0;
}

static bool is_in_params(const struct message_line *line) {
    return line->depth == OF_PARAMS && strcmp(line->keys[0], "params") == 0;
}

static void end_key(struct message_line *line) {
    if (line->depth == OF_MESSAGE || line->depth == OF_PARAMS) {
        char *key = line->keys[line->depth - 1];
        const size_t length = token_is_whole(line, KEY_MAX) ? line->length : 0;
        memcpy(key, line->token, length);
        key[length] = '\0';
    }
    forget_token(line);
}

/* A text has a quote before it in its hash, so that "1" is not 1. */
static void end_value(struct message_line *line, bool is_text) {
    if (line->hash == 0)
        return;
    if (is_at(line, OF_MESSAGE, "id"))
        line->id = line->hash;
    else if (is_in_params(line) && is_at(line, OF_PARAMS, "requestId"))
        line->request_id = line->hash;
    else if (is_text && is_at(line, OF_MESSAGE, "method") && token_is_whole(line, METHOD_MAX)) {
        memcpy(line->method, line->token + 1, line->length - 1);
        line->method[line->length - 1] = '\0';
    }
    forget_token(line);
}

static void take_in_string(struct message_line *line, char byte) {
    if (byte == '"' && !line->escaped) {
        line->in_string = false;
        if (line->expects_key)
            end_key(line);
        else
            end_value(line, true);
        return;
    }
    line->escaped = byte == '\\' && !line->escaped;
    add(line, byte);
}

static void go_down(struct message_line *line, bool is_object) {
    forget_token(line);
    line->is_batch = line->is_batch || (line->depth == 0 && !is_object);
    line->depth++;
    if (line->depth < DEPTHS)
        line->objects = (line->objects & ~(UINT64_C(1) << line->depth)) | (uint64_t)is_object << line->depth;
    line->expects_key = is_object;
    if (line->depth <= OF_PARAMS)
        line->keys[line->depth - 1][0] = '\0';
}

bool message_line_take(struct message_line *line, char byte) {
    if (byte == '\n') /* never inside of JSON text: there it is written as \n */
        return true;
    line->is_empty = line->is_empty && (byte == ' ' || byte == '\r' || byte == '\t');
    if (line->in_string) {
        take_in_string(line, byte);
        return false;
    }
    switch (byte) {
    case '"':
        line->in_string = true;
        line->escaped = false;
        forget_token(line);
        if (!line->expects_key)
            add(line, byte);
        break;
    case '{':
    case '[':
        go_down(line, byte == '{');
        break;
    case '}':
    case ']':
        end_value(line, false);
        line->depth -= line->depth > 0;
        line->expects_key = false;
        break;
    case ',':
        end_value(line, false);
        line->expects_key = is_in_object(line);
        break;
    case ':':
        line->expects_key = false;
        break;
    case ' ':
    case '\t':
    case '\r':
        end_value(line, false);
        break;
    default:
        add(line, byte);
    }
    return false;
}
