/* Not linked with libibverbs: loads plugin.so, which is, with local scope; "deepbind" lets it look at itself first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
	int flags = RTLD_NOW | RTLD_LOCAL | (argc > 2 && !strcmp(argv[2], "deepbind") ? RTLD_DEEPBIND : 0);
	void *handle = dlopen(argv[1], flags);
	int (*run)(void);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	*(void **)&run = handle ? dlsym(handle, "run") : NULL;
	return run ? run() : 99;
}
