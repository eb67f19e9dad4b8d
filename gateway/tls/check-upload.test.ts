import { X509Certificate } from 'node:crypto'
import { expect } from 'chai'
import { encrypted, TestAuthority, type LeafOptions } from '../../test/support/gateway/tls-material.js'
import { BerthError } from '../../shared/errors.js'
import { checkUpload, type Upload } from './check-upload.js'

const target = 'panel.example'
const dayMs = 86_400_000

describe('an uploaded certificate', function () {
  let authority: TestAuthority
  before(async () => {
    authority = await TestAuthority.create()
  })

  const check = (upload: Upload) =>
    checkUpload(upload, { target, nowMs: Date.now(), roots: [new X509Certificate(authority.rootPem)] })
  const issue = (options: LeafOptions = {}, name = target) => authority.issue(name, options)

  /** Returns code and field of the error, and checks that its message contains no part of a key. */
  function refusal(upload: Upload): [string, string | undefined] {
    try {
      check(upload)
    } catch (error) {
      if (!(error instanceof BerthError)) throw error
      expect(error.message).not.to.match(/PRIVATE KEY|[A-Za-z0-9+/]{60}/)
      return [error.code, error.field]
    }
    throw new Error('accepted')
  }

  it('is stored with the certificate of the key first, followed by the certificate of the issuer', async () => {
    const { certPem, leafPem, keyPem } = await issue()
    const middlePem = certPem.slice(leafPem.length)
    const { chainPem } = check({ certPem: `junk\n${middlePem}${leafPem}`, keyPem })
    expect(chainPem.trim()).to.equal(certPem.trim())
  })

  it('is rejected if the key belongs to another certificate', async () => {
    const [one, other] = [await issue(), await issue()]
    expect(refusal({ ...one, keyPem: other.keyPem })).to.deep.equal(['private_key_mismatch', 'key_pem'])
  })

  for (const [what, options, code] of [
    ['if it has expired', { notBeforeMs: Date.now() - 9 * dayMs, notAfterMs: Date.now() - dayMs }, 'expired'],
    ['if it is not valid yet', { notBeforeMs: Date.now() + dayMs }, 'not_yet_valid'],
    ['if its extended key usage does not permit servers', { purposes: ['1.3.6.1.5.5.7.3.2'] }, 'unusable'],
  ] as const)
    it(`is rejected ${what}`, async () =>
      expect(refusal(await issue(options as LeafOptions))).to.deep.equal([`certificate_${code}`, 'cert_pem']))

  for (const name of ['other.example', '192.0.2.1'])
    it(`is rejected if it is for ${name} instead of ${target}`, async () =>
      expect(refusal(await issue({}, name))).to.deep.equal(['certificate_name_mismatch', 'target']))

  for (const rsaBits of [1024, 8192])
    it(`is rejected if it has an RSA key of ${rsaBits} bits`, async () =>
      expect(refusal(await issue({ rsaBits }))).to.deep.equal(['certificate_key_size', 'key_pem']))

  it('is rejected if the certificate of its issuer is missing', async () => {
    const { leafPem, keyPem } = await issue()
    expect(refusal({ certPem: leafPem, keyPem })).to.deep.equal(['certificate_chain_incomplete', 'cert_pem'])
  })

  for (const junk of ['x', '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n', '\u0000'])
    it(`is rejected if the text of the certificate is ${JSON.stringify(junk)}`, async () =>
      expect(refusal({ ...(await issue()), certPem: junk })).to.deep.equal(['certificate_invalid', 'cert_pem']))

  it('is rejected if the text of the certificate also contains a private key', async () => {
    const { certPem, keyPem } = await issue()
    expect(refusal({ certPem: certPem + keyPem, keyPem })).to.deep.equal(['certificate_invalid', 'cert_pem'])
  })

  for (const junk of ['x', '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'])
    it(`is rejected if the text of the key is ${JSON.stringify(junk)}`, async () =>
      expect(refusal({ ...(await issue()), keyPem: junk })).to.deep.equal(['private_key_invalid', 'key_pem']))

  for (const type of ['pkcs8', 'sec1'] as const)
    it(`is rejected if the key in ${type} format has a passphrase`, async () => {
      const good = await issue()
      expect(refusal({ ...good, keyPem: encrypted(good.keyPem, type) })).to.deep.equal([
        'private_key_encrypted',
        'key_pem',
      ])
    })
})
