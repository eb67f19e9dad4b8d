import { BerthError } from '../../../shared/errors.js'
import type { Machine } from '../machine.js'
import type { RunPaths } from './paths.js'
import { windowsAdministrator } from './plan-config-drive.js'
import type { QmpConnection } from './qmp/connection.js'
import { objectOf } from './qmp/messages.js'
import { runInGuest, withGuestAgent, type GuestAgent } from './qmp/guest-agent.js'

/* This file contains requests to the guest agent. The guest controls this agent, so its answers are untrusted. */

/** True if a program in the guest has opened the guest agent's port. Also true if QEMU's monitor does not answer. */
export async function listensInside(monitor: QmpConnection): Promise<boolean> {
  const devices = await monitor.execute('query-chardev').catch(() => undefined)
  const port = (Array.isArray(devices) ? devices : []).map(objectOf).find((one) => one?.['label'] === 'agent')
  return port?.['frontend-open'] !== false
}

/** A hash of root's password, or the administrator's password in clear text. */
type GivenPassword = { readonly passwordHash: string } | { readonly password: string; readonly username: string }

/**
 * Sets the administrator's password through the guest agent. Windows accepts no hash, and reads a password from its CD
 * only at its first boot.
 * @throws {BerthError} `guest_refused` if the guest refuses, is stopped or has no agent
 */
export async function setWindowsPassword(
  run: RunPaths,
  { running, password }: { readonly running: boolean; readonly password: string },
): Promise<void> {
  if (running && (await setPasswordInside(run, { password, username: windowsAdministrator }))) return
  throw new BerthError('conflict', 'guest_refused', 'the password cannot be set: the guest agent is not responding')
}

/**
 * Sets a password in the guest. @returns false if its agent is missing or does not confirm the change
 * @throws {BerthError} `guest_refused` with the guest's reason
 */
export async function setPasswordInside(run: RunPaths, given: GivenPassword): Promise<boolean> {
  const crypted = 'passwordHash' in given
  const password = Buffer.from(crypted ? given.passwordHash : given.password).toString('base64')
  const username = crypted ? 'root' : given.username
  try {
    await withGuestAgent(run.agent, (agent) =>
      agent.ask('guest-set-user-password', { username, password, crypted }, 10_000),
    )
    return true
  } catch (error) {
    if (!(error instanceof BerthError)) throw error
    if (error.code !== 'machine_refused') return false
    throw new BerthError('conflict', 'guest_refused', `the password could not be set in the guest: ${error.message}`)
  }
}

/** Assigns IPv6 addresses in the guest. @returns false if the guest has no agent or refuses */
export async function assignInside(
  run: RunPaths,
  { nic }: Machine,
  { added, gone }: { added: readonly string[]; gone: readonly string[] },
): Promise<boolean> {
  const ip = (agent: GuestAgent, ...args: string[]): Promise<void> => runInGuest(agent, 'ip', ['-6', ...args])
  try {
    await withGuestAgent(run.agent, async (agent) => {
      const device = await findDevice(agent, nic.mac)
      for (const address of gone)
        await ip(agent, 'address', 'del', `${address}/128`, 'dev', device).catch(() => undefined)
      for (const address of added) await ip(agent, 'address', 'replace', `${address}/128`, 'dev', device)
      if (nic.ipv6Addresses.length > 0)
        await ip(agent, 'route', 'replace', 'default', 'via', nic.gateway6, 'dev', device)
    })
    return true
  } catch (error) {
    if (error instanceof BerthError) return false
    throw error
  }
}

/** Finds the interface by the MAC address that the host gave it, because the guest can rename it. */
async function findDevice(agent: GuestAgent, mac: string): Promise<string> {
  const found = await agent.ask('guest-network-get-interfaces')
  const interfaces = (Array.isArray(found) ? found : []).map(objectOf)
  const name = interfaces.find((one) => one?.['hardware-address'] === mac.toLowerCase())?.['name']
  return typeof name === 'string' && /^[a-z0-9._-]{1,15}$/i.test(name) ? name : 'eth0'
}
