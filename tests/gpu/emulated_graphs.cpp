/* emulated_graphs.cpp - graphs: work that streams would have queued, with the edges that streams' orders and events
 * make between its pieces. Nothing else orders them when the graph is launched.
 *
 * A stream is captured when a recording begins in it, or when it waits for an event of a captured stream; each captured
 * stream has a frontier, the nodes that its next one comes after.
 */
#include "emulated_runtime.h"

#include <algorithm>

#include "kernels/cuda/runtime.h"

/* ---- recording ---- */

void capture_add(struct stream *stream, std::unique_ptr<struct work> work)
{
    std::vector<struct graph_node> &nodes = stream->capture->graph->nodes;
    nodes.push_back(graph_node{std::shared_ptr<const struct work>(std::move(work)), stream->frontier});
    stream->frontier.assign(1, nodes.size() - 1);
}

int cuda_record_begin(void *handle)
{
    locked hold;
    struct stream *stream = find_stream(handle);
    if (machine_error())
        return machine_error();
    if (!stream)
        return INVALID_HANDLE;
    if (!handle)
        return refuse(CAPTURE_UNSUPPORTED, "the default stream cannot be recorded");
    if (stream->capture)
        return refuse(ILLEGAL_STATE, "a recording begins in a stream that is being recorded");
    stream->capture = std::make_shared<struct capture>();
    *stream->capture = capture{stream, std::make_shared<struct graph>(), {stream}, false, false};
    stream->frontier.clear();
    return 0;
}

/* Whether all that was captured comes before the end of the stream where it began. */
static bool all_joined(const struct capture &capture)
{
    const std::vector<struct graph_node> &nodes = capture.graph->nodes;
    std::vector<bool> before(nodes.size());
    for (const size_t node : capture.origin->frontier)
        before[node] = true;
    for (size_t i = nodes.size(); i-- > 0;)
        for (const size_t node : nodes[i].after)
            before[node] = before[node] || before[i];
    return std::find(before.begin(), before.end(), false) == before.end();
}

int cuda_record_end(void *handle, void **graph)
{
    locked hold;
    struct machine &m = machine();
    struct stream *stream = find_stream(handle);
    *graph = NULL;
    if (machine_error())
        return machine_error();
    if (!stream)
        return INVALID_HANDLE;
    if (!stream->capture)
        return refuse(ILLEGAL_STATE, "a recording ends that did not begin");
    const std::shared_ptr<struct capture> capture = stream->capture;
    if (capture->origin != stream)
        return refuse(CAPTURE_UNMATCHED, "a recording ends in another stream than it began in");
    const bool joined = all_joined(*capture);
    capture->ended = true;
    for (struct stream *captured : capture->streams) {
        captured->capture.reset();
        captured->frontier.clear();
    }
    if (capture->invalid)
        return CAPTURE_INVALIDATED;
    if (!joined)
        return refuse(CAPTURE_UNJOINED, "a recording ends, and its stream waits not for all other streams");
    m.graphs.push_back(capture->graph);
    *graph = handle_of(GRAPH_HANDLE, m.graphs.size() - 1);
    return 0;
}

/* ---- launching ---- */

static const std::shared_ptr<struct graph> *find_graph(const void *handle)
{
    size_t index;
    if (handle_index(handle, GRAPH_HANDLE, machine().graphs.size(), &index) && machine().graphs[index])
        return &machine().graphs[index];
    refuse(INVALID_HANDLE, "a graph that is none (%p)", handle);
    return NULL;
}

static std::unique_ptr<struct work> place(enum work_kind kind, const std::shared_ptr<struct record> &record)
{
    auto work = std::make_unique<struct work>();
    work->kind = kind;
    work->record = record;
    return work;
}

/* A graph runs once at a time. */
int cuda_graph_launch(void *handle, void *stream_handle)
{
    locked hold;
    struct stream *stream = find_stream(stream_handle);
    const std::shared_ptr<struct graph> *graph = find_graph(handle);
    if (machine_error())
        return machine_error();
    if (!stream || !graph)
        return INVALID_HANDLE;
    if (stream->capture)
        return refuse(CAPTURE_UNSUPPORTED, "a graph is launched in a stream that is being recorded: not emulated");
    if ((*graph)->last)
        queue_work(stream, place(WAIT, (*graph)->last));
    auto work = place(GRAPH, NULL);
    work->graph = *graph;
    queue_work(stream, std::move(work));
    (*graph)->last = std::make_shared<struct record>(record{false, 0});
    return queue_work(stream, place(RECORD, (*graph)->last));
}

/* Launches of it that are queued are still done. */
int cuda_graph_destroy(void *handle)
{
    locked hold;
    const std::shared_ptr<struct graph> *graph = find_graph(handle);
    if (graph)
        machine().graphs[(size_t)(graph - machine().graphs.data())].reset();
    return machine_error() ? machine_error() : graph ? 0 : (int)INVALID_HANDLE;
}

std::unique_ptr<struct graph_run> graph_begin(const struct graph &graph, double begin_ns)
{
    auto run = std::make_unique<struct graph_run>();
    run->begin_ns = begin_ns;
    run->done = 0;
    run->newest_first = random_below(2);
    run->end_ns.resize(graph.nodes.size());
    for (size_t i = 0; i < graph.nodes.size(); i++) {
        run->left.push_back(graph.nodes[i].after.size());
        if (graph.nodes[i].after.empty())
            run->ready.push_back(i);
    }
    return run;
}

static void node_is_done(const struct graph &graph, struct graph_run *run, size_t done)
{
    run->done++;
    for (size_t i = done + 1; i < graph.nodes.size(); i++)
        for (const size_t node : graph.nodes[i].after)
            if (node == done && --run->left[i] == 0)
                run->ready.push_back(i);
}

bool graph_step(const struct graph &graph, struct graph_run *run)
{
    const size_t count = run->ready.size();
    const size_t first = count == 0 ? 0 : run->newest_first ? count - 1 : random_below((uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const size_t at = (first + i) % count, node = run->ready[at];
        double begin_ns = run->begin_ns;
        for (const size_t before : graph.nodes[node].after)
            begin_ns = std::max(begin_ns, run->end_ns[before]);
        if (!perform(*graph.nodes[node].work, begin_ns, &run->end_ns[node]))
            continue;
        run->ready.erase(run->ready.begin() + (ptrdiff_t)at);
        node_is_done(graph, run, node);
        return true;
    }
    return false;
}

double graph_end(const struct graph_run &run)
{
    double end_ns = run.begin_ns;
    for (const double ns : run.end_ns)
        end_ns = std::max(end_ns, ns);
    return end_ns;
}
