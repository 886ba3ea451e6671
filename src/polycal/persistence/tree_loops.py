"""Compiled loops over the nodes of scikit-learn's trees."""

from __future__ import annotations

import numpy as np

from .._utils.compiled import njit

LARGEST = 2.0**32


@njit(nogil=True, cache=True)
def squeeze(nodes, value, total, scratch, feature, threshold, left, n_samples, counts, derivable):
    """Fill the arrays of one tree, and mark in ``derivable`` what need not be stored.

    ``derivable`` is for children, counts and Gini impurities. Children follow their parents, so a
    loop from the last node knows the sums of all children. ``total`` and ``scratch`` are work
    arrays for the counts, the rows and the roots of subtrees.
    """
    n, k = len(nodes), value.shape[2]
    in_order, counted, gini = True, True, True
    rows, roots, depth = scratch[0], scratch[1], 0  # roots of the subtrees behind a node
    m, leaf = len(threshold), len(n_samples)
    for i in range(n - 1, -1, -1):
        node = nodes[i]
        a, b = node.left_child, node.right_child
        weight, rows[i] = node.weighted_n_node_samples, node.n_node_samples
        if a < 0:
            feature[i] = -1
            leaf -= 1
            n_samples[leaf] = rows[i]
            for y in range(k):
                total[i, y] = np.rint(value[i, 0, y] * weight)
                counted &= 0.0 <= total[i, y] < LARGEST
                counts[leaf, y] = np.uint32(total[i, y] if counted else 0.0)
        else:
            feature[i] = node.feature
            m -= 1
            threshold[m] = node.threshold
            left[m] = node.missing_go_to_left != 0
            in_order &= depth >= 2 and a == roots[depth - 1] and b == roots[depth - 2]
            depth = max(depth - 2, 0)
            for y in range(k):
                total[i, y] = total[a, y] + total[b, y]
            counted &= rows[i] == rows[a] + rows[b]
        roots[depth] = i
        depth += 1
        n_total, squares = 0.0, 0.0
        for y in range(k):
            n_total += total[i, y]
            squares += total[i, y] * total[i, y]
        if n_total != weight or n_total <= 0.0:
            counted = gini = False
            continue
        for y in range(k):
            counted &= total[i, y] / n_total == value[i, 0, y]
        gini &= 1.0 - squares / (n_total * n_total) == node.impurity
    derivable[0], derivable[1], derivable[2] = in_order, counted, gini


@njit(nogil=True, cache=True)
def link(start, feature, links):
    """Fill in the children of nodes in order."""
    longest = 0
    for t in range(len(start) - 1):
        longest = max(longest, start[t + 1] - start[t])
    roots = np.empty(longest + 1, np.int32)
    for t in range(len(start) - 1):
        first, n = start[t], start[t + 1] - start[t]
        top = 0
        for i in range(n - 1, -1, -1):
            if feature[first + i] >= 0:
                links[first + i, 0] = roots[top - 1]
                links[first + i, 1] = roots[top - 2]
                top -= 2
            roots[top] = i
            top += 1


@njit(nogil=True, cache=True)
def all_counted(counts):
    """Whether no leaf is empty: its votes would be 0 / 0."""
    for leaf in range(counts.shape[0]):
        some = False
        for y in range(counts.shape[1]):
            some |= counts[leaf, y] > 0
        if not some:
            return False
    return True


@njit(nogil=True, cache=True)
def is_complete(start, feature):
    """Whether nodes in order make complete trees: each ends with its last leaf."""
    for t in range(len(start) - 1):
        open_ends = 1
        for i in range(start[t], start[t + 1]):
            if open_ends == 0:
                return False
            open_ends += 1 if feature[i] >= 0 else -1
        if open_ends != 0:
            return False
    return True


@njit(nogil=True, cache=True)
def children_follow(start, feature, children):
    """Whether every child follows its parent, and leaves have no children."""
    for t in range(len(start) - 1):
        n = start[t + 1] - start[t]
        for i in range(n):
            for side in range(2):
                child = children[start[t] + i, side]
                if feature[start[t] + i] < 0:
                    if child != -1:
                        return False
                elif child <= i or child >= n:
                    return False
    return True


@njit(nogil=True, cache=True)
def deepest(links):
    """Steps from the root to the deepest leaf of one tree, where children follow parents."""
    depth = np.zeros(len(links), np.int64)
    most = 0
    for i in range(len(links)):
        most = max(most, depth[i])
        for side in range(2):
            child = links[i, side]
            if child >= 0:
                depth[child] = max(depth[child], depth[i] + 1)
    return most


@njit(nogil=True, cache=True)
def pack(start, feature, threshold, links, nodes):
    """Fill the nodes that ``ForestAdapter`` walks over; a leaf leads to itself."""
    m = 0
    for t in range(len(start) - 1):
        for j in range(start[t], start[t + 1]):
            node = nodes[j]
            if feature[j] < 0:
                own = j - start[t]
                node.threshold, node.feature = np.float32(-2.0), 0
                node.left, node.right = own, own
            else:
                node.threshold, node.feature = threshold[m], feature[j]
                node.left, node.right = links[j, 0], links[j, 1]
                m += 1


@njit(nogil=True, cache=True)
def vote(feature, counts, votes):
    """Fill in the share of each class at the leaves."""
    leaf = 0
    for j in range(len(feature)):
        if feature[j] < 0:
            n_total = 0.0
            for y in range(counts.shape[1]):
                n_total += counts[leaf, y]
            for y in range(counts.shape[1]):
                votes[j, y] = counts[leaf, y] / n_total
            leaf += 1


@njit(nogil=True, cache=True)
def restore(feature, threshold, left, links, nodes):
    """Fill in children, features and thresholds of the nodes of one tree."""
    m = 0
    for i in range(len(feature)):
        node = nodes[i]
        node.left_child, node.right_child = links[i, 0], links[i, 1]
        if feature[i] < 0:
            node.feature, node.threshold = -2, -2.0
        else:
            node.feature, node.threshold = feature[i], threshold[m]
            node.missing_go_to_left = left[m]
            m += 1


@njit(nogil=True, cache=True)
def count(counts, n_samples, nodes, value):
    """Fill in rows, weights, values and Gini impurities, from the leaves to the root."""
    leaf = len(counts)
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if node.left_child < 0:
            leaf -= 1
            node.n_node_samples = n_samples[leaf]
            for y in range(counts.shape[1]):
                value[i, 0, y] = counts[leaf, y]
        else:
            left, right = node.left_child, node.right_child
            node.n_node_samples = nodes[left].n_node_samples + nodes[right].n_node_samples
            for y in range(counts.shape[1]):
                value[i, 0, y] = value[left, 0, y] + value[right, 0, y]
    for i in range(len(nodes)):
        n_total, squares = 0.0, 0.0
        for y in range(counts.shape[1]):
            n_total += value[i, 0, y]
            squares += value[i, 0, y] * value[i, 0, y]
        nodes[i].weighted_n_node_samples = n_total
        nodes[i].impurity = 1.0 - squares / (n_total * n_total)
        for y in range(counts.shape[1]):
            value[i, 0, y] /= n_total
