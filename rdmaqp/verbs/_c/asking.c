/*
 * What the guard is told before a modify call, asked in one crossing from Python, which costs more than some of the
 * answers. Nothing is remembered here: states, ports, GIDs and keys change at run time.
 */

struct rdmaqp_answers {
	int state;
	int sq_draining;
	int pkey; /* in host order */
	struct ibv_port_attr port;
	struct ibv_gid_entry gid;
	char netdev[IF_NAMESIZE]; /* of that entry: "" it has none in this network namespace, "/" it cannot be asked */
};

enum {
	RDMAQP_HAS_STATE = 1 << 0,
	RDMAQP_HAS_PORT = 1 << 1,
	RDMAQP_HAS_GID = 1 << 2,
	RDMAQP_HAS_PKEY = 1 << 3,
};

/*
 * Ask for the state, and for port "port_num" where that is not 0; of the port, for one slot of its GID table and for
 * one of its partition keys where their indices are not below 0.
 *
 * Returns which answers there are. Whoever misses one asks for it alone, and gets the error.
 */
static int rdmaqp_ask(struct ibv_qp *qp, uint8_t port_num, int sgid_index, int pkey_index,
		      struct rdmaqp_answers *answers)
{
	struct ibv_context *context = qp->context;
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr = { 0 };
	int there = 0;
	__be16 pkey;

	if (!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init_attr)) {
		answers->state = attr.qp_state;
		answers->sq_draining = attr.sq_draining;
		there |= RDMAQP_HAS_STATE;
	}
	if (!port_num || ibv_query_port(context, port_num, &answers->port))
		return there;
	there |= RDMAQP_HAS_PORT;
	if (sgid_index >= 0 && !ibv_query_gid_ex(context, port_num, sgid_index, &answers->gid, 0)) {
		uint32_t ifindex = answers->gid.ndev_ifindex;

		if (!ifindex || !if_indextoname(ifindex, answers->netdev))
			strncpy(answers->netdev, ifindex && errno != ENXIO ? "/" : "", sizeof(answers->netdev));
		there |= RDMAQP_HAS_GID;
	}
	if (pkey_index >= 0 && pkey_index < answers->port.pkey_tbl_len &&
	    !ibv_query_pkey(context, port_num, pkey_index, &pkey)) {
		answers->pkey = be16toh(pkey);
		there |= RDMAQP_HAS_PKEY;
	}
	return there;
}
