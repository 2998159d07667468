/*
 * Enumerators by name, in the environment and in the answers of ibv_…_str().
 *
 * The real library answers with prose ("transport retry counter exceeded"); the null device with the enumerator
 * ("RETRY_EXC_ERR"), so that nobody takes one for the other.
 */
#include <string.h>

#include "stub.h"

struct name {
	int value;
	const char *text;
};

#define PORT(x) { IBV_PORT_##x, #x }
#define STATUS(x) { IBV_WC_##x, #x }
#define GID_TYPE(x) { IBV_GID_TYPE_##x, #x }
#define EVENT(x) { IBV_EVENT_##x, #x }
#define NODE(x) { IBV_NODE_##x, #x }
#define STATE(x) { IBV_QPS_##x, #x }

static const struct name port_states[] = {
	PORT(NOP), PORT(DOWN), PORT(INIT), PORT(ARMED), PORT(ACTIVE), PORT(ACTIVE_DEFER),
};

static const struct name wc_statuses[] = {
	STATUS(SUCCESS), STATUS(LOC_LEN_ERR), STATUS(LOC_QP_OP_ERR), STATUS(LOC_EEC_OP_ERR), STATUS(LOC_PROT_ERR),
	STATUS(WR_FLUSH_ERR), STATUS(MW_BIND_ERR), STATUS(BAD_RESP_ERR), STATUS(LOC_ACCESS_ERR),
	STATUS(REM_INV_REQ_ERR), STATUS(REM_ACCESS_ERR), STATUS(REM_OP_ERR), STATUS(RETRY_EXC_ERR),
	STATUS(RNR_RETRY_EXC_ERR), STATUS(LOC_RDD_VIOL_ERR), STATUS(REM_INV_RD_REQ_ERR), STATUS(REM_ABORT_ERR),
	STATUS(INV_EECN_ERR), STATUS(INV_EEC_STATE_ERR), STATUS(FATAL_ERR), STATUS(RESP_TIMEOUT_ERR),
	STATUS(GENERAL_ERR), STATUS(TM_ERR), STATUS(TM_RNDV_INCOMPLETE),
};

static const struct name gid_types[] = { GID_TYPE(IB), GID_TYPE(ROCE_V1), GID_TYPE(ROCE_V2) };

static const struct name event_types[] = {
	EVENT(CQ_ERR), EVENT(QP_FATAL), EVENT(QP_REQ_ERR), EVENT(QP_ACCESS_ERR), EVENT(COMM_EST), EVENT(SQ_DRAINED),
	EVENT(PATH_MIG), EVENT(PATH_MIG_ERR), EVENT(DEVICE_FATAL), EVENT(PORT_ACTIVE), EVENT(PORT_ERR),
	EVENT(LID_CHANGE), EVENT(PKEY_CHANGE), EVENT(SM_CHANGE), EVENT(SRQ_ERR), EVENT(SRQ_LIMIT_REACHED),
	EVENT(QP_LAST_WQE_REACHED), EVENT(CLIENT_REREGISTER), EVENT(GID_CHANGE), EVENT(WQ_FATAL),
};

static const struct name node_types[] = {
	NODE(CA), NODE(SWITCH), NODE(ROUTER), NODE(RNIC), NODE(USNIC), NODE(USNIC_UDP), NODE(UNSPECIFIED),
};

static const struct name qp_states[] = {
	STATE(RESET), STATE(INIT), STATE(RTR), STATE(RTS), STATE(SQD), STATE(SQE), STATE(ERR),
};

static const char *name_of(const struct name *names, size_t count, int value)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (names[i].value == value)
			return names[i].text;
	return "unknown";
}

static int named(const struct name *names, size_t count, const char *text, const char *expected)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (!strcmp(names[i].text, text))
			return names[i].value;
	bad_setting(text, expected);
}

int port_state_named(const char *text)
{
	return named(port_states, lengthof(port_states), text, "a port state, like ACTIVE");
}

int wc_status_named(const char *text)
{
	return named(wc_statuses, lengthof(wc_statuses), text, "a completion status, like RETRY_EXC_ERR");
}

int gid_type_named(const char *text)
{
	return named(gid_types, lengthof(gid_types), text, "IB, ROCE_V1 or ROCE_V2");
}

const char *qp_state_name(int state)
{
	return name_of(qp_states, lengthof(qp_states), state);
}

const char *ibv_wc_status_str(enum ibv_wc_status status)
{
	return name_of(wc_statuses, lengthof(wc_statuses), status);
}

const char *ibv_event_type_str(enum ibv_event_type event)
{
	return name_of(event_types, lengthof(event_types), event);
}

const char *ibv_node_type_str(enum ibv_node_type node_type)
{
	return name_of(node_types, lengthof(node_types), node_type);
}

const char *ibv_port_state_str(enum ibv_port_state port_state)
{
	return name_of(port_states, lengthof(port_states), port_state);
}

/* Mbit/s, and the multiple of 2.5 Gbit/s where it has one. */
static const struct {
	enum ibv_rate rate;
	int mbps, multiple;
} rates[] = {
	{ IBV_RATE_2_5_GBPS, 2500, 1 },    { IBV_RATE_5_GBPS, 5000, 2 },       { IBV_RATE_10_GBPS, 10000, 4 },
	{ IBV_RATE_20_GBPS, 20000, 8 },    { IBV_RATE_30_GBPS, 30000, 12 },    { IBV_RATE_40_GBPS, 40000, 16 },
	{ IBV_RATE_60_GBPS, 60000, 24 },   { IBV_RATE_80_GBPS, 80000, 32 },    { IBV_RATE_120_GBPS, 120000, 48 },
	{ IBV_RATE_14_GBPS, 14062, 0 },    { IBV_RATE_56_GBPS, 56250, 0 },     { IBV_RATE_112_GBPS, 112500, 0 },
	{ IBV_RATE_168_GBPS, 168750, 0 },  { IBV_RATE_25_GBPS, 25781, 0 },     { IBV_RATE_100_GBPS, 103125, 0 },
	{ IBV_RATE_200_GBPS, 206250, 0 },  { IBV_RATE_300_GBPS, 309375, 0 },   { IBV_RATE_28_GBPS, 28125, 11 },
	{ IBV_RATE_50_GBPS, 53125, 20 },   { IBV_RATE_400_GBPS, 425000, 160 }, { IBV_RATE_600_GBPS, 637500, 240 },
	{ IBV_RATE_800_GBPS, 850000, 320 }, { IBV_RATE_1200_GBPS, 1275000, 480 },
};

int ibv_rate_to_mbps(enum ibv_rate rate)
{
	size_t i;

	for (i = 0; i < lengthof(rates); i++)
		if (rates[i].rate == rate)
			return rates[i].mbps;
	return -1;
}

enum ibv_rate mbps_to_ibv_rate(int mbps)
{
	size_t i;

	for (i = 0; i < lengthof(rates); i++)
		if (rates[i].mbps == mbps)
			return rates[i].rate;
	return IBV_RATE_MAX;
}

int ibv_rate_to_mult(enum ibv_rate rate)
{
	size_t i;

	for (i = 0; i < lengthof(rates); i++)
		if (rates[i].rate == rate && rates[i].multiple)
			return rates[i].multiple;
	return -1;
}

enum ibv_rate mult_to_ibv_rate(int mult)
{
	size_t i;

	for (i = 0; i < lengthof(rates); i++)
		if (rates[i].multiple == mult && mult)
			return rates[i].rate;
	return IBV_RATE_MAX;
}
