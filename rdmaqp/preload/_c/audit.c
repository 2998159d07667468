/*
 * The auditor (rtld-audit(7)): leads to the shim who finds libibverbs' functions by asking a handle, or is loaded with
 * RTLD_DEEPBIND. It is in a namespace of its own and only compares names. It is linked with nothing: a libc that it
 * brought along would be the program's second, and valgrind and other tools take that for the first.
 *
 * It knows no address of the shim's. When the shim starts, it looks its own functions up by their own names, and the
 * loader asks here about that as about everything.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>
#include <stdint.h>

static struct {
	const char *verb, *ours;
	uintptr_t address;
} leads[] = {
	{ "ibv_modify_qp", "rdmaqp_preload_modify_qp", 0 },
	{ "ibv_destroy_qp", "rdmaqp_preload_destroy_qp", 0 },
};
static uintptr_t shim; /* its cookie */

static int is_same(const char *one, const char *other)
{
	while (*one && *one == *other) {
		one++;
		other++;
	}
	return *one == *other;
}

unsigned int la_version(unsigned int version)
{
	return version < LAV_CURRENT ? version : LAV_CURRENT;
}

unsigned int la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	(void)namespace;
	*cookie = (uintptr_t)map;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

/*
 * Whether symbol number *index* of *map* is of the version that new programs get: ibv_modify_qp@IBVERBS_1.0 takes
 * other structs, and stays what it is. Bit 15 marks what is not the default (the symbol versioning of the gABI).
 */
static int is_default(const struct link_map *map, unsigned int index)
{
	const ElfW(Dyn) *entry;

	for (entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_VERSYM) {
			uintptr_t at = entry->d_un.d_ptr; /* some loaders relocate it in place */

			if (at < map->l_addr)
				at += map->l_addr;
			return !(((const ElfW(Half) *)at)[index] & 0x8000);
		}
	}
	return 1;
}

static uintptr_t bind(uintptr_t address, unsigned int index, const char *name, uintptr_t from, uintptr_t to)
{
	size_t i;

	for (i = 0; i < sizeof(leads) / sizeof(leads[0]); i++) {
		if (is_same(name, leads[i].ours)) {
			leads[i].address = address;
			shim = to;
		} else if (is_same(name, leads[i].verb) && leads[i].address && from != shim && to != shim &&
			   is_default((const struct link_map *)to, index)) {
			return leads[i].address;
		}
	}
	return address;
}

#if __ELF_NATIVE_CLASS == 64
uintptr_t la_symbind64(Elf64_Sym *symbol, unsigned int index, uintptr_t *from, uintptr_t *to, unsigned int *flags,
		       const char *name)
#else
uintptr_t la_symbind32(Elf32_Sym *symbol, unsigned int index, uintptr_t *from, uintptr_t *to, unsigned int *flags,
		       const char *name)
#endif
{
	(void)flags;
	return bind(symbol->st_value, index, name, *from, *to);
}
