// PyTorch's caching allocator by its default settings, on one stream: the rules of every_byte/gpu/memory/allocator.py.
//
// The driver sells *segments*; a segment is cut into *blocks*, and a block serves one request. A freed block joins the free
// blocks beside it and goes back to its pool. All sizes are bytes, whole numbers below 2**53.

const MIB = 2 ** 20;
const LARGEST_SMALL = 1 * MIB; // a request of more is served by the large pool
const OWN_SEGMENT = 10 * MIB; // one of at least this gets a segment of its own size
const BETWEEN = 2 * MIB; // between two segments, so that no block has a neighbour in another

const up = (bytes, multiple) => Math.ceil(bytes / multiple) * multiple;

/** The smallest block that holds a request. */
export const blockFor = (bytes) => up(bytes, 512);

/** The segment that is bought where no free block holds a block of this size. */
export const segmentFor = (size) => (size <= LARGEST_SMALL ? 2 * MIB : size < OWN_SEGMENT ? 20 * MIB : up(size, 2 * MIB));

/** Free blocks by size, and those of one size by address. */
class Pool {
  constructor(slack) {
    this.slack = slack; // a remainder up to this stays in the block
    this.free = [];
  }

  /** The place of the first free block that is not before (size, address). */
  place(size, address) {
    let [low, high] = [0, this.free.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      const block = this.free[middle];
      if (block.size < size || (block.size === size && block.address < address)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  insert(block) {
    this.free.splice(this.place(block.size, block.address), 0, block);
  }

  remove(block) {
    return this.free.splice(this.place(block.size, block.address), 1)[0];
  }

  /** Out of the pool: the smallest free block of at least this size, of several the lowest. */
  bestFit(size) {
    return this.free.splice(this.place(size, 0), 1)[0];
  }
}

/** The first of two neighbours, grown by the second. */
function merged(first, second) {
  first.size += second.size;
  first.next = second.next;
  if (first.next) first.next.prev = first;
  return first;
}

/** Hands out blocks of at most `capacity` bytes of segments. What it counts are `allocated`, in whole blocks, `requested`,
 * `reserved`, in segments, and `peak`, the most that was allocated. */
export class Allocator {
  constructor(capacity) {
    Object.assign(this, { capacity, allocated: 0, requested: 0, reserved: 0, peak: 0, peakReserved: 0 });
    this.pools = [new Pool(0), new Pool(LARGEST_SMALL)];
    this.segments = new Set(); // the first block of each
    this.end = BETWEEN; // of the addresses that were sold
  }

  /** A block for a request, or null where there is no room, even with all segments back that are free as a whole. */
  malloc(requested) {
    const size = blockFor(requested);
    const pool = this.pools[size <= LARGEST_SMALL ? 0 : 1];
    const free = pool.bestFit(size) ?? this.buy(pool, segmentFor(size)) ?? this.buyAgain(pool, segmentFor(size));
    if (!free) return null;
    this.split(free, size);
    Object.assign(free, { active: true, requested });
    this.allocated += free.size;
    this.requested += requested;
    this.peak = Math.max(this.peak, this.allocated);
    return free;
  }

  /** Cut a free block to size, if what is left over is worth a free block of its own. */
  split(block, size) {
    const { pool, next } = block;
    if (block.size - size <= pool.slack) return;
    const rest = { pool, address: block.address + size, size: block.size - size, active: false, requested: 0, prev: block, next };
    if (next) next.prev = rest;
    block.next = rest;
    block.size = size;
    pool.insert(rest);
  }

  /** Back into its pool, as one with the free blocks beside it. */
  free(block) {
    const { pool, prev, next } = block;
    this.allocated -= block.size;
    this.requested -= block.requested;
    Object.assign(block, { active: false, requested: 0 });
    let whole = block;
    if (next && !next.active) whole = merged(block, pool.remove(next));
    if (prev && !prev.active) whole = merged(pool.remove(prev), whole);
    pool.insert(whole);
  }

  buy(pool, size) {
    if (this.reserved + size > this.capacity) return null;
    const block = { pool, address: this.end, size, active: false, requested: 0, prev: null, next: null };
    this.end += size + BETWEEN;
    this.reserved += size;
    this.peakReserved = Math.max(this.peakReserved, this.reserved);
    this.segments.add(block);
    return block;
  }

  buyAgain(pool, size) {
    this.emptyCache();
    return this.buy(pool, size);
  }

  /** Give back the segments that are one free block. */
  emptyCache() {
    for (const pool of this.pools) {
      for (const block of pool.free.filter(({ prev, next }) => !prev && !next)) {
        pool.remove(block);
        this.segments.delete(block);
        this.reserved -= block.size;
      }
    }
  }

  /** Each segment in the order of addresses, as its blocks {size, requested, active}. */
  layout() {
    return [...this.segments].sort((a, b) => a.address - b.address).map((first) => {
      const blocks = [];
      for (let block = first; block; block = block.next) blocks.push({ size: block.size, requested: block.requested, active: block.active });
      return blocks;
    });
  }
}
