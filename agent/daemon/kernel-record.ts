import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import type { Logger } from 'pino'
import { describeError } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import { findSysctl, writeSysctl } from '../host/sysctl.js'
import { listHostSettings, planRecord, planRestore, type KernelRecord } from './plan-kernel-record.js'

/** One for all agents of a host: its kernel's settings are theirs together. */
const kernelRecordFile = '/var/lib/.berth-kernel-settings.json'

/** Notes the host's own values before this agent changes them. */
export async function recordKernelSettings(stateDir: string, file = kernelRecordFile): Promise<void> {
  const record = await readRecord(file)
  const next = planRecord(record, stateDir, await readSettings())
  if (JSON.stringify(next) !== JSON.stringify(record))
    await writeFileAtomic(file, `${JSON.stringify(next, null, 2)}\n`, 0o644)
}

/** Puts back what is still as agents set it, unless another agent of this host is left. */
export async function restoreKernelSettings(
  stateDir: string,
  log: Logger,
  file = kernelRecordFile,
): Promise<void> {
  const record = await readRecord(file)
  const users = record.users.filter((user) => user !== stateDir && existsSync(user))
  if (users.length > 0)
    return writeFileAtomic(file, `${JSON.stringify({ ...record, users }, null, 2)}\n`, 0o644)
  for (const { path, value } of planRestore(record, await readSettings())) {
    try {
      await writeSysctl(path, value)
    } catch (error) {
      log.warn({ path, value, reason: describeError(error) }, 'kernel setting not put back')
    }
  }
  await rm(file, { force: true })
}

/** One that cannot be read is none: the host's settings must not keep an agent from starting. */
async function readRecord(file: string): Promise<KernelRecord> {
  try {
    return JSON.parse(await readFile(file, 'utf8')) as KernelRecord
  } catch {
    return { users: [], before: {} }
  }
}

async function readSettings(): Promise<Map<string, number>> {
  const has = new Map<string, number>()
  for (const path of listHostSettings().keys()) {
    const value = await findSysctl(path)
    if (value !== undefined && Number.isSafeInteger(value)) has.set(path, value)
  }
  return has
}
