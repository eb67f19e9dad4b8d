/**
 * Root file systems of containers, by guest uuid. Every call is safe to repeat; sizes in bytes.
 */
export interface LxcDisks {
  /** Clones the template's file system and bounds its size; an existing disk is kept. */
  clone(uuid: string, templateId: string, diskBytes: number): Promise<void>
  /** Absent: does nothing. */
  remove(uuid: string): Promise<void>
  /** Absolute host path of the guest's root directory; says nothing about whether it is there. */
  rootfsPath(uuid: string): string
  /** Uuids of all guests with a disk. */
  list(): Promise<string[]>
  /** Bytes referenced by each guest's disk. */
  usage(): Promise<Map<string, number>>
}
