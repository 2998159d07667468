/*
 * What the environment says.
 *
 * A setting is read at each control call, so that a test may change it while the program runs. Those marked * are
 * used on the hot path: they are read again at each control call too, but not at a post; rdmaqp_stub_reread() reads
 * them at once.
 *
 * RDMAQP_STUB_X may be narrowed to one device: RDMAQP_STUB_mlx5_1_X counts for mlx5_1, before RDMAQP_STUB_X.
 * "A list" is one item a port, separated by commas; the last item counts for the remaining ports.
 *
 * Devices
 *   DEVICES             names, by comma                                   null0
 *   NO_DEVICES          1: an empty list
 *   PORTS               how many ports                                    1
 *   TRANSPORT           a number of enum ibv_transport_type               0 (InfiniBand, RoCE)
 *   MAX_QP_RD_ATOM, MAX_QP_INIT_RD_ATOM, MAX_QP_WR, MAX_SGE, MAX_CQE, …    any int of ibv_device_attr, in capitals
 *                                                                         (device.c has the defaults)
 *   MAX_MW              0: there are no memory windows                    0
 *   XRC                 1: XRC's verbs are there (xrc.c)
 *   MAX_MR_SIZE, MAX_PKEYS, LOCAL_CA_ACK_DELAY, ATOMIC_CAP, DEVICE_CAP_FLAGS, VENDOR_ID, VENDOR_PART_ID
 * Ports
 *   LINK                infiniband or ethernet, a list                    infiniband
 *   PORT_STATE          NOP, DOWN, INIT, ARMED, ACTIVE, a list            ACTIVE
 *   LID                 a list                                            17, 18, …; 0 on Ethernet
 *   SM_LID, LMC         lists                                             1, 0
 *   ACTIVE_MTU, MAX_MTU bytes, lists                                      4096 (active on Ethernet 1024), 4096
 *   MAX_MSG_SZ          a list                                            1073741824
 *   GRH_REQUIRED        1: the port says IBV_QPF_GRH_REQUIRED, a list     0
 *   GID_TBL_LEN         a list                                            8
 *   GIDS                INDEX=GID/TYPE[@INTERFACE],…  TYPE: IB, ROCE_V1 or ROCE_V2. A semicolon starts the next
 *                       port's. An index not named is empty; ";" alone is an empty table.
 *                       InfiniBand: 0=fe80::200:0:0:1/IB
 *                       Ethernet: 0, 1 = fe80::ff:fe00:1 as v1, v2; 2, 3 = ::ffff:192.0.2.1 as v1, v2
 *   PKEYS               hexadecimal, by comma; every port has them        ffff
 *   PKEY_TBL_LEN        a list                                            as many as PKEYS
 * Faults
 *   VERB_ERRNO          what the verb answers, without doing anything. VERB: GET_DEVICE_LIST, OPEN_DEVICE,
 *                       CLOSE_DEVICE, QUERY_DEVICE, QUERY_PORT, QUERY_GID, QUERY_GID_TABLE, QUERY_PKEY, ALLOC_PD,
 *                       DEALLOC_PD, REG_MR, DEREG_MR, ALLOC_MW, DEALLOC_MW, CREATE_AH, DESTROY_AH, ATTACH_MCAST,
 *                       DETACH_MCAST, CREATE_COMP_CHANNEL, DESTROY_COMP_CHANNEL, CREATE_CQ, DESTROY_CQ, CREATE_SRQ,
 *                       MODIFY_SRQ, QUERY_SRQ, DESTROY_SRQ, CREATE_QP, QUERY_QP, MODIFY, DESTROY_QP, POST_SEND*,
 *                       POST_RECV*, POLL_CQ*, REQ_NOTIFY_CQ*, GET_CQ_EVENT*.
 *                       May be negative where the verb returns an error number; a verb that answers with a pointer or
 *                       −1 sets errno to its absolute value. POLL_CQ_ERRNO is what is returned, so always negative.
 *                       MODIFY_ERRNO may name the state moved to: RTR=22,RTS=-110
 *   SILENT              1: a verb that answers with a pointer leaves errno as it was
 *   WC_STATUS*          status of the next send completions, number or name (RETRY_EXC_ERR). The queue pair then
 *                       stands in ERR (UC, UD: SQE), which only ibv_query_qp tells: ibv_qp.state stays as it was.
 *   DROP*               1: sends complete, receives do not arrive
 *   HIDE*               1: a poll finds nothing, as if all were still under way
 *   HOLD*               1: sends are taken, and stay under way until they are flushed
 *   FLUSH*              1: in ERR, what is posted and was posted completes as WR_FLUSH_ERR, as hardware does it
 *   DRAINING            1: ibv_query_qp says sq_draining 1 in SQD
 * Speed
 *   HOT                 free: a device opened from here on posts and polls for nothing, without the two above (free.c)
 * Record
 *   LOG                 file; one JSON object a line is appended for each control call (journal.c)
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stub.h"

struct hot_settings hot;

void bad_setting(const char *text, const char *expected)
{
	/* A test that misspells a setting should not pass by accident. */
	fprintf(stderr, "null device: \"%s\" in the environment: expected %s\n", text, expected);
	abort();
}

long number(const char *text, int base)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, base);
	if (errno || end == text || *end)
		bad_setting(text, "a number");
	return value;
}

/* Takes the next item off *rest. */
bool next_item(const char **rest, char separator, char *into, size_t size)
{
	const char *end;
	size_t length;

	if (!*rest)
		return false;
	end = strchr(*rest, separator);
	length = end ? (size_t)(end - *rest) : strlen(*rest);
	if (length >= size)
		bad_setting(*rest, "a shorter item");
	memcpy(into, *rest, length);
	into[length] = '\0';
	*rest = end ? end + 1 : NULL;
	return true;
}

const char *setting(const char *device, const char *name)
{
	char variable[160];
	const char *value = NULL;

	if (device) {
		snprintf(variable, sizeof(variable), "RDMAQP_STUB_%s_%s", device, name);
		value = getenv(variable);
	}
	if (!value) {
		snprintf(variable, sizeof(variable), "RDMAQP_STUB_%s", name);
		value = getenv(variable);
	}
	return value && *value ? value : NULL;
}

/* The port's item of a list, or the last one. */
const char *setting_item(const char *device, const char *name, int port, char *into, size_t size)
{
	const char *rest = setting(device, name);
	int i;

	if (!rest)
		return NULL;
	for (i = 1; i <= port && next_item(&rest, ',', into, size); i++)
		;
	return into;
}

/* port 0 is the device itself. */
long setting_number(const char *device, const char *name, int port, long otherwise)
{
	char item[64];
	const char *text = port ? setting_item(device, name, port, item, sizeof(item)) : setting(device, name);

	return text ? number(text, 0) : otherwise;
}

/* The error that the verb shall answer, 0 for none. An item "RTR=22" counts only when that is what "when" says. */
int fault_when(const char *verb, const char *when)
{
	char variable[80], item[64];
	const char *rest;

	snprintf(variable, sizeof(variable), "%s_ERRNO", verb);
	rest = setting(NULL, variable);
	while (next_item(&rest, ',', item, sizeof(item))) {
		char *equals = strchr(item, '=');

		if (!equals)
			return number(item, 0);
		*equals = '\0';
		if (!strcmp(item, when))
			return number(equals + 1, 0);
	}
	return 0;
}

int fault(const char *verb)
{
	return fault_when(verb, "");
}

/* For verbs that answer with a pointer or −1, and say why in errno. */
bool fails(const char *verb)
{
	int error = fault(verb);

	if (error && !setting_number(NULL, "SILENT", 0, 0))
		errno = abs(error);
	return error != 0;
}

void rdmaqp_stub_reread(void)
{
	const char *status = setting(NULL, "WC_STATUS");
	int known = 0;

	if (status)
		known = isdigit((unsigned char)*status) ? number(status, 0) : wc_status_named(status);
	hot.wc_status = known;
	hot.drop = setting_number(NULL, "DROP", 0, 0);
	hot.hide = setting_number(NULL, "HIDE", 0, 0);
	hot.hold = setting_number(NULL, "HOLD", 0, 0);
	hot.flush = setting_number(NULL, "FLUSH", 0, 0);
	hot.post_send_errno = fault("POST_SEND");
	hot.post_recv_errno = fault("POST_RECV");
	hot.poll_cq_errno = fault("POLL_CQ");
	hot.req_notify_cq_errno = fault("REQ_NOTIFY_CQ");
	hot.get_cq_event_errno = fault("GET_CQ_EVENT");
}
