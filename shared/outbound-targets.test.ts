import { expect } from 'chai'
import { checkTarget, parseTargetUrl, type TargetPolicy } from './outbound-targets.js'

const setting = 'images.allowed_targets'
const strict: TargetPolicy = { allowHttp: false, allowedTargets: [], setting }
const open: TargetPolicy = { allowHttp: true, allowedTargets: ['192.168.7.0/24', 'fd00:7::/32'], setting }
const codeOf = (act: () => unknown): string => {
  try {
    act()
    return 'taken'
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('the check of URLs from users', () => {
  for (const url of [
    'https://images.example.org/a.tar.xz',
    'https://images.example.org:8443/a?b=c',
    'https://1.1.1.1/a',
    'https://[2606:4700::1111]/a',
    'HTTPS://EXAMPLE.ORG/a',
  ])
    it(`accepts ${url}`, () => expect(parseTargetUrl(url, strict).protocol).to.equal('https:'))

  for (const url of [
    'http://example.org/a',
    'ftp://example.org/a',
    'file:///etc/shadow',
    'data:,x',
    'javascript:1',
    'gopher://x/',
    'example.org/a',
    '',
    'https://',
    'https://user@example.org/',
    'https://user:pw@example.org/',
    'https://127.0.0.1/',
    'https://127.1/',
    'https://0177.0.0.1/',
    'https://2130706433/',
    'https://0x7f000001/',
    'https://0/',
    'https://10.0.0.1/',
    'https://172.16.0.1/',
    'https://192.168.1.1/',
    'https://100.64.0.1/',
    'https://169.254.169.254/latest/meta-data',
    'https://168.63.129.16/',
    'https://198.51.100.1/',
    'https://224.0.0.1/',
    'https://255.255.255.255/',
    'https://[::]/',
    'https://[::1]/',
    'https://[fe80::1]/',
    'https://[fd00::1]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:8.8.8.8]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[2002:7f00:1::]/',
    'https://[2001:db8::1]/',
    'https://[ff02::1]/',
    'https://[fd00:ec2::254]/',
    `https://example.org/${'a'.repeat(2000)}`,
  ])
    it(`refuses "${url.slice(0, 60)}"`, () =>
      expect(codeOf(() => parseTargetUrl(url, strict))).to.equal('invalid_field'))

  it('accepts http and private addresses only where an administrator allows them', () => {
    for (const url of ['http://example.org/a', 'http://192.168.7.9/a', 'https://[fd00:7::9]/a'])
      expect(parseTargetUrl(url, open).href).to.equal(url)
    for (const url of ['http://192.168.8.9/a', 'https://[fd00:8::9]/a', 'http://127.0.0.1/'])
      expect(codeOf(() => parseTargetUrl(url, open))).to.equal('invalid_field')
    expect(codeOf(() => checkTarget('10.0.0.1', { allowHttp: true, allowedTargets: ['::/0'], setting }, []))).to.equal(
      'invalid_field',
    )
  })

  it('refuses a URL that contains an address of the host itself', () => {
    expect(codeOf(() => parseTargetUrl('https://8.8.8.8/a', strict, ['8.8.8.8']))).to.equal('invalid_field')
    expect(codeOf(() => parseTargetUrl('https://[2606:4700::1]/', strict, ['2606:4700::1']))).to.equal('invalid_field')
  })

  it('refuses a name that resolves to an address of this host, even for URLs from administrators', () => {
    expect(codeOf(() => checkTarget('8.8.8.8', strict, ['8.8.8.8']))).to.equal('invalid_field')
    expect(codeOf(() => checkTarget('8.8.8.8', strict, ['8.8.4.4']))).to.equal('taken')
    expect(codeOf(() => checkTarget('192.168.7.1', open, ['192.168.7.1']))).to.equal('taken')
  })
})
