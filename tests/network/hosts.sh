# hosts.sh - hosts of a small network on one machine; to be sourced by a script that runs as root.
#
# Each host is a network namespace with one interface, e0. Its other end is a port of a bridge, the switch, in a
# namespace of its own. Both ends are shaped by a token bucket: a host's side what it sends, the switch's side what it
# receives. So every host has a full-duplex port of a non-blocking switch, and no packet leaves the namespaces.
#
#   hosts_possible || exit 77           says why not
#   hosts_begin                         waits for other users of these names, removes what an earlier one left, and
#                                       sees to it that everything is removed when the script ends, however it does
#   hosts_up HOSTS MBIT                 makes them anew
#   hosts_rate MBIT                     changes the rate of all ports
#   hosts_mpirun SECONDS COMMAND...     a process on every host, at most so long
#
# shellcheck shell=sh

hosts_name=cpsim-test  # namespaces cpsim-test-switch, cpsim-test-1, cpsim-test-2, ...
hosts_network=10.77.0  # addresses .1, .2, ...
hosts_eager=68000000   # bytes, more than any message here has
hosts_lock=/run/lock/$hosts_name
hosts_agent=$(cd "$(dirname "$0")" && pwd)/agent

hosts_possible() {
    for tool in ip tc mpirun nsenter flock setsid timeout; do
        command -v $tool >/dev/null || { echo "skipped: there is no '$tool'" >&2; return 1; }
    done
    [ "$(id -u)" = 0 ] || { echo "skipped: network namespaces need root" >&2; return 1; }
    # in a namespace that is gone as soon as the command ends
    unshare --net sh -c 'ip link add e0 type veth peer name e1 && ip link add b0 type bridge &&
        tc qdisc add dev e0 root tbf rate 1gbit burst 64kb limit 1mb' 2>/dev/null || {
        echo "skipped: this system grants no network namespaces with veth, bridge and tbf" >&2
        return 1
    }
}

hosts_begin() {
    exec 9>"$hosts_lock"
    flock -w 600 9 || { echo "another run holds $hosts_lock" >&2; exit 1; }
    hosts_directory=$(mktemp -d)
    trap 'hosts_down; rm -rf "$hosts_directory"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    hosts_down
}

hosts_namespaces() {
    ip netns list | sed -n "s/^\($hosts_name-[a-z0-9]*\).*/\1/p"
}

# Ends what runs in the namespaces, and removes them.
hosts_down() {
    for namespace in $(hosts_namespaces); do
        # shellcheck disable=SC2046 # a list of process ids
        kill -KILL $(ip netns pids "$namespace") 2>/dev/null || true
    done
    for namespace in $(hosts_namespaces); do
        ip netns delete "$namespace" || true
    done
}

# The bucket holds what the rate brings in half a millisecond: late timers lose hardly anything, and no more than
# that runs ahead after a pause. TCP's large segments have to fit into it, or they would be cut and acknowledged in pieces.
hosts_shape() { # VERB NAMESPACE INTERFACE
    burst=$((hosts_mbit * 1000 / 8 / 2))
    segment=$((burst - 1600))
    [ $segment -le 60000 ] || segment=60000
    ip -n "$2" link set "$3" gso_max_size $segment
    tc -n "$2" qdisc "$1" dev "$3" root tbf rate "${hosts_mbit}mbit" burst $burst limit 32mb
}

hosts_up() { # HOSTS MBIT
    hosts_down
    hosts_count=$1 hosts_mbit=$2 hosts_list=
    switch=$hosts_name-switch
    ip netns add $switch
    ip -n $switch link add b0 type bridge
    ip -n $switch link set b0 up
    for host in $(seq 1 "$hosts_count"); do
        name=$hosts_name-$host
        ip netns add "$name"
        ip link add e0 netns "$name" type veth peer name "p$host" netns $switch
        ip -n $switch link set "p$host" master b0
        ip -n $switch link set "p$host" up
        ip -n "$name" address add "$hosts_network.$host/24" dev e0
        ip -n "$name" link set e0 up
        ip -n "$name" link set lo up
        ip netns exec "$name" sysctl -q net.ipv4.tcp_congestion_control=reno
        hosts_shape add "$name" e0
        hosts_shape add $switch "p$host"
        hosts_list=${hosts_list:+$hosts_list,}$hosts_network.$host:1
    done
}

hosts_rate() { # MBIT
    hosts_mbit=$1
    for host in $(seq 1 "$hosts_count"); do
        hosts_shape replace "$hosts_name-$host" e0
        hosts_shape replace "$hosts_name-switch" "p$host"
    done
}

# OpenMPI over TCP. All messages are eager, sent as they come: else a rank asks for each large message, the request
# waits behind what the rank itself is sending on that connection, and opposite transfers take turns at half of the rate
# each (with two connections, as chance has it). mpirun takes the hosts for others although they share the cores, so
# nothing is bound. The agent stands in for ssh. Some priority, so that other work of the machine disturbs less; Linux
# gives it to sessions, so all ranks stay in one. In the background, so that a signal is heard at once.
hosts_mpirun() { # SECONDS COMMAND...
    limit=$1
    shift
    # shellcheck disable=SC2016 # expanded by the inner shell
    env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PMIX_MCA_gds=hash TMPDIR="$hosts_directory" \
        nsenter --net="/run/netns/$hosts_name-1" setsid --wait nice -n -10 \
        sh -c '{ echo -10 >/proc/self/autogroup; } 2>/dev/null; exec "$@"' sh timeout -k 5 "$limit" \
        mpirun -n "$hosts_count" --host "$hosts_list" --oversubscribe --bind-to none --leave-session-attached \
        --mca plm_rsh_agent "$hosts_agent" --mca orte_keep_fqdn_hostnames 1 --mca rtc ^hwloc \
        --mca oob_tcp_if_include "$hosts_network.0/24" --mca btl_tcp_if_include "$hosts_network.0/24" \
        --mca pml ob1 --mca btl tcp,self --mca btl_tcp_free_list_num 1 --mca btl_tcp_free_list_inc 1 \
        --mca btl_tcp_eager_limit $hosts_eager --mca btl_tcp_rndv_eager_limit $hosts_eager \
        --mca btl_tcp_max_send_size $hosts_eager "$@" 9>&- &
    wait $!
}
