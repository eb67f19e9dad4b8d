import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import type { Logger } from 'pino'
import { Mutex } from '../../shared/async/mutex.js'
import { describeError } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import { readNetworkNamespace } from '../host/net/network-namespace.js'
import { isGone } from '../host/process/proc.js'
import { keepSysctls, type SysctlChange } from '../host/kernel/sysctl-change.js'
import { findSysctl, writeSysctl } from '../host/kernel/sysctl.js'
import {
  planBoot,
  planSettingChange,
  planLeave,
  planHostLimits,
  planRelease,
  planUser,
  type KernelRecord,
  type KernelUser,
} from './plan-kernel-record.js'

/** File with the `KernelRecord` of the host. All agents on the host share it, even in other network namespaces. */
const kernelRecordFile = '/var/lib/.berth-kernel-settings.json'

/**
 * Records the values of kernel settings before the agent changes them: first the limits that `ensureHostLimits` will
 * raise, and later network settings. Omits settings of the bridge, because they disappear with the bridge.
 */
export async function recordKernelSettings(stateDir: string, bridge: string, file = kernelRecordFile): Promise<void> {
  const netns = readNetworkNamespace()
  const limits = planHostLimits(new Map())
  const has = readSettings(limits.map(({ path }) => path))
  const raised = planHostLimits(has).filter(({ path }) => has.has(path))
  await update(file, (record) =>
    raised.reduce((noted, change) => planSettingChange(noted, netns, change), planUser(record, { stateDir, netns })),
  )
  const user = { stateDir, netns }
  const mutex = new Mutex()
  keepSysctls({
    note: async (change) => {
      if (change.path.split('/').includes(bridge)) return
      await mutex.run(() => update(file, (record) => planSettingChange(record, netns, change)))
    },
    putBack: (isUnused) => mutex.run(() => release(file, user, isUnused)),
  })
}

/** Restores settings that no agent uses any more. Writes the record last, so that a crash loses no original value. */
async function release(file: string, user: KernelUser, isUnused: (path: string) => boolean): Promise<string[]> {
  const { record, restore } = planRelease(await readRecord(file), user, { isThere: existsSync, isUnused })
  if (restore.length === 0) return []
  const done: string[] = []
  for (const change of restore) if (await putBack(change)) done.push(change.path)
  await writeRecord(file, record)
  return done
}

/** Restores one value, unless another program has changed it. @returns true if it was restored */
async function putBack({ path, before, value }: SysctlChange): Promise<boolean> {
  if (findSysctl(path) !== value || before === value) return false
  try {
    await writeSysctl(path, before)
  } catch (error) {
    if (isGone(error)) return false // the interface of the setting was deleted
    throw error
  }
  return true
}

/** Restores original values of kernel settings. Skips settings that other programs changed or other agents need. */
export async function restoreKernelSettings(stateDir: string, log: Logger, file = kernelRecordFile): Promise<void> {
  const user = { stateDir, netns: readNetworkNamespace() }
  const { record, restore } = planLeave(await readRecord(file), user, existsSync)
  for (const change of restore)
    await putBack(change).catch((error: unknown) =>
      log.warn(
        { path: change.path, value: change.before, reason: describeError(error) },
        'a kernel setting could not be restored',
      ),
    )
  await (record ? writeRecord(file, record) : rm(file, { force: true }))
}

async function update(file: string, change: (record: KernelRecord) => KernelRecord): Promise<void> {
  const record = await readRecord(file)
  const next = change(record)
  if (JSON.stringify(next) !== JSON.stringify(record)) await writeRecord(file, next)
}

/** Writes one value per line, because scripts/lib/purge.sh also reads the file. */
function writeRecord(file: string, record: KernelRecord): Promise<void> {
  return writeFileAtomic(file, `${JSON.stringify(record, null, 2)}\n`, 0o644)
}

/** Reads the record. A damaged record counts as missing, because it must not prevent the agent's start. */
async function readRecord(file: string): Promise<KernelRecord> {
  const boot = (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
  try {
    return planBoot(JSON.parse(await readFile(file, 'utf8')) as KernelRecord, boot)
  } catch {
    return { boot, users: {}, before: {}, set: {} }
  }
}

function readSettings(paths: readonly string[]): Map<string, number> {
  const has = new Map<string, number>()
  for (const path of paths) {
    const value = findSysctl(path)
    if (value !== undefined && Number.isSafeInteger(value)) has.set(path, value)
  }
  return has
}
