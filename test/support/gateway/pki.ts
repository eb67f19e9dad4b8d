import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCsrPem, createPrivateKeyPem } from '../../../agent/enrollment/csr.js'
import { writeIdentity } from '../../../agent/enrollment/identity.js'
import { ensureAuthority, type Authority, type KeyedCertificate } from '../../../gateway/pki/authority.js'

export const hourMs = 3_600_000

export interface TestPki {
  readonly directory: string
  readonly authority: Authority
  /** Creates an identity directory for an agent, as `berth-agent join` does. */
  enrol(hostId: string, lifetimeMs?: number): Promise<{ identityDir: string; serial: string; notAfterMs: number }>
  gatewayLeaf(lifetimeMs?: number): Promise<KeyedCertificate>
  remove(): Promise<void>
}

export async function createTestPki(): Promise<TestPki> {
  const directory = await mkdtemp(join(tmpdir(), 'btest-pki-'))
  const authority = await ensureAuthority(join(directory, 'pki'), 30)
  return {
    directory,
    authority,
    enrol: async (hostId, lifetimeMs = hourMs) => {
      const privateKeyPem = createPrivateKeyPem()
      const issued = await authority.signRequest(
        await createCsrPem(privateKeyPem),
        { role: 'agent', hostId },
        lifetimeMs,
      )
      const identityDir = join(directory, `identity-${hostId}`)
      const { certificatePem, serial, notAfterMs } = issued
      await writeIdentity(identityDir, { privateKeyPem, certificatePem, caPem: authority.caPem })
      return { identityDir, serial, notAfterMs }
    },
    gatewayLeaf: (lifetimeMs = hourMs) => authority.issue({ role: 'gateway' }, lifetimeMs),
    remove: () => rm(directory, { recursive: true, force: true }),
  }
}
