/*
 * RDMAQP_STUB_LOG: one JSON object a line for each control call, in the order in which the calls ended.
 *
 * Each has "call" and "result" (0, an error number as returned, or for pointers errno). Objects have "kind" and
 * "number". The file is opened for each line, so that a test may move or change it while the program runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stub.h"

static void append(struct entry *entry, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(struct entry *entry, const char *format, ...)
{
	size_t room = sizeof(entry->text) - entry->used;
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(entry->text + entry->used, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		abort();
	entry->used += length;
}

struct entry control_call(const char *call)
{
	struct entry entry;

	rdmaqp_stub_reread();
	entry.used = 0;
	append(&entry, "{\"call\":\"%s\"", call);
	return entry;
}

void entry_number(struct entry *entry, const char *key, long long value)
{
	append(entry, ",\"%s\":%lld", key, value);
}

/* For names only: nothing is escaped. */
void entry_text(struct entry *entry, const char *key, const char *value)
{
	append(entry, ",\"%s\":\"%s\"", key, value);
}

void entry_bytes(struct entry *entry, const char *key, const void *bytes, size_t length)
{
	const unsigned char *byte = bytes;
	size_t i;

	append(entry, ",\"%s\":\"", key);
	for (i = 0; i < length; i++)
		append(entry, "%02x", byte[i]);
	append(entry, "\"");
}

void entry_object(struct entry *entry, const char *kind, int number)
{
	entry_text(entry, "kind", kind);
	entry_number(entry, "number", number);
}

/* Writes the line; gives the result back, for "return entry_result(…)". errno stays as it was. */
int entry_result(struct entry *entry, int result)
{
	const char *path = setting(NULL, "LOG");
	int saved = errno, file;

	if (!path)
		return result;
	append(entry, ",\"result\":%d}\n", result);
	file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (file < 0 || write(file, entry->text, entry->used) != (ssize_t)entry->used) {
		perror(path);
		abort();
	}
	close(file);
	errno = saved;
	return result;
}
