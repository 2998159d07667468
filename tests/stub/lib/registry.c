/* Objects by number. The caller holds stub_lock. */
#include <stdlib.h>

#include "stub.h"

pthread_mutex_t stub_lock = PTHREAD_MUTEX_INITIALIZER;

int registry_add(struct registry *registry, void *object)
{
	void **slots = realloc(registry->slots, (registry->size + 1) * sizeof(*slots));

	if (!slots)
		abort();
	slots[registry->size] = object;
	registry->slots = slots;
	return ++registry->size;
}

void *registry_get(const struct registry *registry, int number)
{
	return number >= 1 && number <= registry->size ? registry->slots[number - 1] : NULL;
}

void registry_remove(struct registry *registry, int number)
{
	registry->slots[number - 1] = NULL;
}
