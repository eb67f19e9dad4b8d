import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import type { Logger } from 'pino'
import { describeError } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import { readNetworkNamespace } from '../host/network-namespace.js'
import { noteSysctlChanges } from '../host/sysctl-change.js'
import { findSysctl, writeSysctl } from '../host/sysctl.js'
import {
  planBoot,
  planChange,
  planLeave,
  planLimits,
  planUser,
  type KernelRecord,
} from './plan-kernel-record.js'

/** One for all agents of a machine: its kernel is theirs together, whatever network namespaces they are in. */
const kernelRecordFile = '/var/lib/.berth-kernel-settings.json'

/**
 * Notes the host's own values: of its limits now, which `ensureHostLimits` is about to raise, and of what the
 * network sets when it sets it. What is the bridge's goes with it.
 */
export async function recordKernelSettings(
  stateDir: string,
  bridge: string,
  file = kernelRecordFile,
): Promise<void> {
  const netns = readNetworkNamespace()
  const limits = planLimits(new Map())
  const has = readSettings(limits.map(({ path }) => path))
  const raised = planLimits(has).filter(({ path }) => has.has(path))
  await update(file, (record) =>
    raised.reduce((noted, change) => planChange(noted, netns, change), planUser(record, { stateDir, netns })),
  )
  let turn = Promise.resolve()
  noteSysctlChanges((change) => {
    if (change.path.split('/').includes(bridge)) return Promise.resolve()
    const noted = turn.then(() => update(file, (record) => planChange(record, netns, change)))
    turn = noted.catch(() => undefined)
    return noted
  })
}

/** Puts back what is still as agents set it, unless another agent needs it. */
export async function restoreKernelSettings(
  stateDir: string,
  log: Logger,
  file = kernelRecordFile,
): Promise<void> {
  const user = { stateDir, netns: readNetworkNamespace() }
  const { record, restore } = planLeave(await readRecord(file), user, existsSync)
  for (const { path, before, value } of restore) {
    if (findSysctl(path) !== value || before === value) continue
    try {
      await writeSysctl(path, before)
    } catch (error) {
      log.warn({ path, value: before, reason: describeError(error) }, 'kernel setting not put back')
    }
  }
  await (record ? writeRecord(file, record) : rm(file, { force: true }))
}

async function update(file: string, change: (record: KernelRecord) => KernelRecord): Promise<void> {
  const record = await readRecord(file)
  const next = change(record)
  if (JSON.stringify(next) !== JSON.stringify(record)) await writeRecord(file, next)
}

/** One line a value: scripts/lib/purge.sh reads it too. */
function writeRecord(file: string, record: KernelRecord): Promise<void> {
  return writeFileAtomic(file, `${JSON.stringify(record, null, 2)}\n`, 0o644)
}

/** One that cannot be read is none: the host's settings must not keep an agent from starting. */
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
