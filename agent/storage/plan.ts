import type { Mount } from '../host/disk/mount.js'

/** The configured pool, with resolved paths. */
export interface PoolWant {
  readonly pool: string
  /** Path of the pool's device. Empty if another program mounts the pool, or if the pool is on `loopFile`. */
  readonly device: string
  readonly loopFile: string
}

/** The present state of the pool's path, mount and device on the host. */
export interface PoolHave {
  /** The mount at the pool's path. */
  readonly mount: Mount | undefined
  /** The loop file behind the mount. Undefined: the mount's source is not a loop device. */
  readonly mountBackingFile: string | undefined
  /** True if the configured device belongs to the mounted filesystem. */
  readonly mountHasDevice: boolean
  /** True if the directory at the pool's path has content although nothing is mounted there. */
  readonly directoryUsed: boolean
  readonly loopFileExists: boolean
  /** Filesystem and partition signatures on the device, or on the loop file if no device is configured. */
  readonly signatures: readonly string[]
}

export type PoolStep =
  | { readonly op: 'createLoopFile'; readonly file: string }
  | { readonly op: 'format'; readonly path: string }
  | { readonly op: 'mount'; readonly source: string; readonly target: string; readonly loop: boolean }

export type PoolPlan = { readonly steps: PoolStep[] } | { readonly refuse: string }

/** Plans the steps that create and mount the pool. No step formats or hides anything that could be data. */
export function planPool(want: PoolWant, have: PoolHave): PoolPlan {
  if (have.mount) return planMounted(want, have, have.mount)
  if (have.directoryUsed)
    return { refuse: `${want.pool} is not empty: mounting the pool there would hide what is in it` }
  return want.device ? planSource(want, want.device, have.signatures) : planLoop(want, have)
}

function planMounted(want: PoolWant, have: PoolHave, mount: Mount): PoolPlan {
  const at = `${want.pool} is a mount of ${mount.source}`
  if (mount.fsType !== 'btrfs') return { refuse: `${at} (${mount.fsType}), but the pool must be btrfs` }
  if (mount.options.includes('ro')) return { refuse: `${at}, but read-only: see the kernel's log` }
  if (want.device && !have.mountHasDevice) return { refuse: `${at}, but storage.device is ${want.device}` }
  if (!want.device && have.loopFileExists && have.mountBackingFile !== want.loopFile)
    return { refuse: `${at}, but there is also ${want.loopFile}: remove the one that is not the pool` }
  return { steps: [] }
}

function planLoop(want: PoolWant, have: PoolHave): PoolPlan {
  if (have.loopFileExists) return planSource(want, want.loopFile, have.signatures)
  return {
    steps: [
      { op: 'createLoopFile', file: want.loopFile },
      { op: 'mount', source: want.loopFile, target: want.pool, loop: true },
    ],
  }
}

function planSource(want: PoolWant, source: string, signatures: readonly string[]): PoolPlan {
  const mount = { op: 'mount', source, target: want.pool, loop: source === want.loopFile } as const
  if (signatures.length === 0) return { steps: [{ op: 'format', path: source }, mount] }
  if (signatures.length === 1 && signatures[0] === 'btrfs') return { steps: [mount] }
  return {
    refuse: `${source} contains ${signatures.join(', ')}: it was not formatted. Wipe it or choose another device`,
  }
}
