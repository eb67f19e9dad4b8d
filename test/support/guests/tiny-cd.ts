import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * Makes a boot sector whose code writes `text` endlessly to the first serial port:
 *
 *     call $+3; pop si; push cs; pop ds; add si, text - 3; cld; mov bx, si
 *     again: mov si, bx; mov dx, 0x3f8
 *     next: lodsb; or al, al; jz pause; out dx, al; jmp next
 *     pause: mov cx, 0xffff; loop $; jmp again
 */
function bootSector(text: string): Buffer {
  const code = Buffer.from('e800005e0e1f83c61ffc89f3' + '89debaf803' + 'ac08c07403eeebf8' + 'b9ffffe2feebec', 'hex')
  const sector = Buffer.alloc(2048)
  code.copy(sector)
  sector.write(`${text}\r\n\0`, 3 + 0x1f, 'latin1')
  return sector
}

/** Makes the image of a CD that a BIOS boots. Its system writes `text` repeatedly to the first serial port. */
export function tinyCd(text: string): Buffer {
  const work = mkdtempSync(join(tmpdir(), 'btest-cd-'))
  try {
    writeFileSync(join(work, 'boot.bin'), bootSector(text))
    const boot = ['-b', 'boot.bin', '-c', 'boot.cat', '-no-emul-boot', '-boot-load-size', '4']
    const file = `${work}.iso`
    execFileSync('genisoimage', ['-quiet', '-o', file, '-V', 'TINY', ...boot, work])
    const image = readFileSync(file)
    rmSync(file)
    return image
  } finally {
    rmSync(work, { recursive: true })
  }
}
