/*
 * What may be named in a work request: a protection domain's memory and destinations. And the lock of the data path.
 *
 * A queue pair, a completion queue and a domain each have a lock, taken in this order. It is there so that close() in
 * another thread cannot free what a call works on; between owners who keep to one thread it is never contended.
 */

static void take(struct rdmaqp_lock *lock)
{
	uint32_t mine = __atomic_fetch_add(&lock->next, 1, __ATOMIC_RELAXED);

	while (__atomic_load_n(&lock->serving, __ATOMIC_ACQUIRE) != mine)
		sched_yield();
}

static void leave(struct rdmaqp_lock *lock)
{
	__atomic_store_n(&lock->serving, lock->serving + 1, __ATOMIC_RELEASE);
}

static int enter(struct rdmaqp_lock *lock)
{
	take(lock);
	if (!lock->closed)
		return 1;
	leave(lock);
	return 0;
}

/* Whether another thread waits for what the caller holds. */
static int is_wanted(const struct rdmaqp_lock *lock)
{
	return __atomic_load_n(&lock->next, __ATOMIC_RELAXED) != lock->serving + 1;
}

/* From here on (or from here on again) calls are refused (or taken); none is under way when this returns. */
static void rdmaqp_set_closed(struct rdmaqp_lock *lock, int closed)
{
	take(lock);
	lock->closed = closed;
	leave(lock);
}

/* A loop with nothing to do. Begin it with its slice of time alone. */
struct idle {
	int64_t slice_ns;
	int64_t end;
	unsigned int turns;
};

/* One turn in vain. Whether the slice is over. */
static int is_over(struct idle *idle)
{
	int64_t now;

	/* The clock may cost as much as hundreds of empty polls (no TSC), a yield as many: now and then. */
	if (++idle->turns % 512 && idle->slice_ns)
		return 0;
	sched_yield(); /* Soft-RoCE works in a thread, which may wait for this very processor */
	if (idle->turns % 4096 != 512 && idle->slice_ns)
		return 0;
	now = now_ns();
	if (!idle->end)
		idle->end = now + idle->slice_ns;
	return now >= idle->end;
}

static uint32_t spread(uint32_t key)
{
	return (key * 0x9e3779b1u) >> 7;
}

/* The slot of that key, or the free one where it would be. */
static uint32_t region_slot(const struct rdmaqp_domain *domain, uint32_t lkey)
{
	uint32_t at = spread(lkey) & domain->region_mask;

	while (domain->regions[at].length && domain->regions[at].lkey != lkey)
		at = (at + 1) & domain->region_mask;
	return at;
}

/* The region of that key, NULL where there is none. The caller is inside. */
static const struct rdmaqp_region *region_of(const struct rdmaqp_domain *domain, uint32_t lkey)
{
	const struct rdmaqp_region *slot;

	if (!domain->regions)
		return NULL;
	slot = &domain->regions[region_slot(domain, lkey)];
	return slot->length ? slot : NULL;
}

static int more_regions(struct rdmaqp_domain *domain)
{
	uint32_t at, count = domain->regions ? domain->region_mask + 1 : 0;
	struct rdmaqp_region *old = domain->regions, *made = calloc(count ? count * 2 : 16, sizeof(*made));

	if (!made)
		return ENOMEM;
	domain->regions = made;
	domain->region_mask = (count ? count * 2 : 16) - 1;
	for (at = 0; at < count; at++)
		if (old[at].length)
			made[region_slot(domain, old[at].lkey)] = old[at];
	free(old);
	return 0;
}

/* Note a region of at least a byte: 0, or ENOMEM. */
static int rdmaqp_add_region(struct rdmaqp_domain *domain, uint64_t addr, uint64_t length, uint32_t lkey,
			     uint32_t access)
{
	int error = 0;

	enter(&domain->lock);
	if (domain->region_count * 2 >= domain->region_mask)
		error = more_regions(domain);
	if (!error) {
		struct rdmaqp_region *slot = &domain->regions[region_slot(domain, lkey)];

		domain->region_count += !slot->length;
		*slot = (struct rdmaqp_region){ .addr = addr, .length = length, .lkey = lkey, .access = access };
	}
	leave(&domain->lock);
	return error;
}

static void rdmaqp_drop_region(struct rdmaqp_domain *domain, uint32_t lkey)
{
	enter(&domain->lock);
	if (domain->regions) {
		uint32_t at = region_slot(domain, lkey);

		domain->region_count -= !!domain->regions[at].length;
		domain->regions[at].length = 0;
		/* Those behind it in its run may have been pushed there by it. */
		for (;;) {
			struct rdmaqp_region other;

			at = (at + 1) & domain->region_mask;
			other = domain->regions[at];
			if (!other.length)
				break;
			domain->regions[at].length = 0;
			domain->regions[region_slot(domain, other.lkey)] = other;
		}
	}
	domain->ended++;
	leave(&domain->lock);
}

/* A memory window has ended: whoever holds requests that name it looks again. None that names it is being posted. */
static void rdmaqp_window_ended(struct rdmaqp_domain *domain)
{
	enter(&domain->lock);
	domain->ended++;
	leave(&domain->lock);
}

/* Note an address handle: its number, from 1 on, or 0 where there is no memory. */
static uint32_t rdmaqp_add_handle(struct rdmaqp_domain *domain, struct ibv_ah *ah)
{
	uint32_t at = 0;

	enter(&domain->lock);
	while (at < domain->handle_count && domain->handles[at])
		at++;
	if (at == domain->handle_count) {
		uint32_t size = at ? at * 2 : 8;
		struct ibv_ah **more = realloc(domain->handles, size * sizeof(*more));

		if (!more) {
			leave(&domain->lock);
			return 0;
		}
		memset(more + at, 0, (size - at) * sizeof(*more));
		domain->handles = more;
		domain->handle_count = size;
	}
	domain->handles[at] = ah;
	leave(&domain->lock);
	return at + 1;
}

static void rdmaqp_drop_handle(struct rdmaqp_domain *domain, uint32_t number)
{
	enter(&domain->lock);
	domain->handles[number - 1] = NULL;
	domain->ended++;
	leave(&domain->lock);
}

/* The address handle of that number, NULL where there is none. The caller is inside. */
static struct ibv_ah *handle_of(const struct rdmaqp_domain *domain, uint32_t number)
{
	return number && number <= domain->handle_count ? domain->handles[number - 1] : NULL;
}

static void rdmaqp_end_domain(struct rdmaqp_domain *domain)
{
	free(domain->regions);
	free(domain->handles);
	memset(domain, 0, sizeof(*domain));
}
