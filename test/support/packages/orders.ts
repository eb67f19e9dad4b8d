import jwt from 'jsonwebtoken'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { joinTokenPrefix } from '../../../shared/join-token.js'
import type { SystemdMachine } from '../host/systemd-machine.js'

/* This file makes join tokens and upgrade orders like those of a gateway, for cases that a gateway never produces. */

const authorityFile = 'var/lib/berth/gateway/pki/authority.pem'
const directory = '/root/order'

/**
 * Signs the content of a join token again, with changed claims.
 * @param gateway machine of the gateway whose authority signs the token
 * @param claims for example `exp`, the end of its validity in seconds since 1970
 */
export function changeToken(gateway: SystemdMachine, token: string, claims: Record<string, unknown>): string {
  const content = jwt.decode(token.slice(joinTokenPrefix.length)) as Record<string, unknown>
  const key = readFileSync(join(gateway.root, authorityFile), 'utf8')
  return joinTokenPrefix + jwt.sign({ ...content, ...claims }, key, { algorithm: 'ES256' })
}

export interface Order {
  /** host:port of the gateway's join endpoint. */
  readonly address: string
  /** Any join token of the host. */
  readonly token: string
  readonly version: string
}

/** Writes an upgrade order to a host, as its agent does for a call of the gateway. */
export function writeOrder(gateway: SystemdMachine, host: SystemdMachine, { address, token, version }: Order): void {
  const authority = /-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/.exec(
    readFileSync(join(gateway.root, authorityFile), 'utf8'),
  )![0]
  const order = { address, version, authority, token: changeToken(gateway, token, { upgrade: 'test' }) }
  host.run('mkdir', '-p', directory)
  for (const [name, text] of Object.entries(order))
    host.run('sh', '-c', `cat > ${directory}/${name} <<'END'\n${text}\nEND`)
}

/** Returns a command that runs the order from `writeOrder` to its end, in the unit berth-upgrade like the agent. */
export function orderCommand(action: '--upgrade' | '--rollback', path = ''): string {
  const unit = 'systemd-run --quiet --collect --pipe --wait --unit=berth-upgrade'
  const script = '$(find /var/lib/berth/programs/agent/ -name install.sh)'
  const programs = `${path}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`
  return `exec ${unit} --setenv=PATH=${programs} -- /bin/sh ${script} ${action} ${directory}`
}
