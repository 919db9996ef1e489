CREATE PROCEDURE tenure_commit_1(
    IN a_gate TINYINT UNSIGNED,
    IN a_desk INT UNSIGNED,
    IN a_place INT UNSIGNED,
    IN a_session INT UNSIGNED,
    IN a_locks LONGBLOB,
    IN a_checks LONGBLOB,
    IN a_writes LONGBLOB,
    IN a_note VARBINARY(1024)
)
    MODIFIES SQL DATA
    SQL SECURITY INVOKER
    COMMENT 'Tenure: makes one commit. Arguments are packed as pack.rs says.'
main: BEGIN
    DECLARE v_at, v_end, v_mode, v_kind, v_length, v_size, v_index, v_desks BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_slot INT UNSIGNED;
    DECLARE v_floor, v_found, v_wanted BIGINT UNSIGNED;
    DECLARE v_count, v_version BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_id BINARY(12);
    DECLARE v_name VARBINARY(1025);

    START TRANSACTION;

    -- The gate: a commit holds one desk, the deletion of a range holds them all.
    IF a_gate = 0 THEN
        SELECT 1 INTO v_desks FROM tenure_desks WHERE desk = a_desk FOR UPDATE;
    ELSE
        SELECT COUNT(*) INTO v_desks FROM tenure_desks WHERE desk < 256 FOR UPDATE;
    END IF;
    IF v_desks <> IF(a_gate = 0, 1, 256) THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row of tenure_desks is missing';
    END IF;

    -- The locks, in the order of their slots: so commits wait for each other, but never in a circle.
    SET v_at = 1, v_end = LENGTH(a_locks);
    WHILE v_at < v_end DO
        SET v_mode = ORD(SUBSTRING(a_locks, v_at, 1)),
            v_slot = CONV(HEX(SUBSTRING(a_locks, v_at + 1, 4)), 16, 10),
            v_at = v_at + 5,
            v_floor = NULL;
        IF v_mode = 0 THEN
            SELECT floor INTO v_floor FROM tenure_slots WHERE slot = v_slot LOCK IN SHARE MODE;
        ELSEIF v_mode <= 2 THEN
            SELECT floor INTO v_floor FROM tenure_slots WHERE slot = v_slot FOR UPDATE;
            IF v_mode = 1 AND v_floor > v_count THEN
                SET v_count = v_floor;
            END IF;
        ELSEIF v_mode <= 4 THEN
            SELECT MAX(floor) INTO v_floor FROM tenure_slots FORCE INDEX (PRIMARY)
                WHERE slot IN (v_slot, v_slot + 1, v_slot + 2, v_slot + 3, v_slot + 4, v_slot + 5, v_slot + 6, v_slot + 7)
                FOR UPDATE;
        ELSE
            SELECT floor INTO v_floor FROM tenure_slots WHERE slot = v_slot + a_place FOR UPDATE;
            -- Without locks: what was acknowledged before is seen, what is not yet need not be.
            SELECT MAX(floor) INTO v_found FROM tenure_slots FORCE INDEX (PRIMARY)
                WHERE slot IN (v_slot, v_slot + 1, v_slot + 2, v_slot + 3, v_slot + 4, v_slot + 5, v_slot + 6, v_slot + 7);
            IF v_found > v_count THEN
                SET v_count = v_found;
            END IF;
        END IF;
        IF v_floor IS NULL THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row of tenure_slots is missing';
        END IF;
    END WHILE;
    -- The session makes the version one that is never used again, even if a crash takes back a commit that somebody has already seen.
    SET v_count = v_count + 1, v_version = (v_count << 16) | a_session;

    SET v_at = 1, v_end = LENGTH(a_checks), v_index = 0;
    WHILE v_at < v_end DO
        SET v_kind = ORD(SUBSTRING(a_checks, v_at, 1)),
            v_wanted = CONV(HEX(SUBSTRING(a_checks, v_at + 1, 8)), 16, 10),
            v_length = CONV(HEX(SUBSTRING(a_checks, v_at + 9, 2)), 16, 10),
            v_name = SUBSTRING(a_checks, v_at + 11, v_length),
            v_at = v_at + 11 + v_length,
            v_found = NULL;
        IF v_kind = 3 THEN
            SELECT 1 INTO v_found FROM tenure_entries WHERE list = v_name LIMIT 1;
        ELSE
            SELECT version INTO v_found FROM tenure_kv WHERE name = v_name;
        END IF;
        IF NOT CASE v_kind
            WHEN 0 THEN v_found <=> v_wanted
            WHEN 2 THEN v_found IS NOT NULL
            ELSE v_found IS NULL
        END THEN
            ROLLBACK;
            SELECT v_index AS failed, v_version AS version;
            LEAVE main;
        END IF;
        SET v_index = v_index + 1;
    END WHILE;

    SET v_at = 1, v_end = LENGTH(a_writes), v_index = 0;
    IF v_end = 0 THEN
        ROLLBACK;
        SELECT NULL AS failed, v_version AS version;
        LEAVE main;
    END IF;
    WHILE v_at < v_end DO
        SET v_kind = ORD(SUBSTRING(a_writes, v_at, 1)),
            v_length = CONV(HEX(SUBSTRING(a_writes, v_at + 1, 2)), 16, 10),
            v_size = CONV(HEX(SUBSTRING(a_writes, v_at + 3, 4)), 16, 10),
            v_name = SUBSTRING(a_writes, v_at + 7, v_length),
            v_at = v_at + 7 + v_length;
        IF v_kind = 0 THEN
            INSERT INTO tenure_kv (name, version, weight, value)
                VALUES (v_name, v_version, v_length + v_size, SUBSTRING(a_writes, v_at, v_size))
                ON DUPLICATE KEY UPDATE version = VALUES(version), weight = VALUES(weight), value = VALUES(value);
        ELSEIF v_kind = 1 THEN
            DELETE FROM tenure_kv WHERE name = v_name;
        ELSEIF v_kind = 2 THEN
            SET v_id = UNHEX(CONCAT(LPAD(HEX(v_version), 16, '0'), LPAD(HEX((a_place << 24) | v_index), 8, '0'))),
                v_index = v_index + 1;
            INSERT INTO tenure_entries (list, id, weight, value)
                VALUES (v_name, v_id, 12 + v_size, SUBSTRING(a_writes, v_at, v_size));
        ELSEIF v_kind = 3 THEN
            SET v_id = SUBSTRING(a_writes, v_at, v_size);
            DELETE FROM tenure_entries WHERE list = v_name AND id = v_id;
        ELSEIF v_kind = 4 THEN
            DELETE FROM tenure_kv WHERE name = v_name;
            DELETE FROM tenure_entries WHERE list = v_name;
        ELSEIF v_kind = 5 THEN
            DELETE FROM tenure_kv WHERE name >= v_name AND name < SUBSTRING(a_writes, v_at, v_size);
            DELETE FROM tenure_entries WHERE list >= v_name AND list < SUBSTRING(a_writes, v_at, v_size);
        ELSE
            DELETE FROM tenure_kv WHERE name >= v_name;
            DELETE FROM tenure_entries WHERE list >= v_name;
        END IF;
        SET v_at = v_at + v_size;
    END WHILE;

    -- What was locked for writing is written: floors never go back, and a cluster certifies nothing but rows that changed.
    SET v_at = 1, v_end = LENGTH(a_locks);
    WHILE v_at < v_end DO
        SET v_mode = ORD(SUBSTRING(a_locks, v_at, 1)),
            v_slot = CONV(HEX(SUBSTRING(a_locks, v_at + 1, 4)), 16, 10),
            v_at = v_at + 5;
        IF v_mode = 1 THEN
            UPDATE tenure_slots SET floor = v_count WHERE slot = v_slot;
        ELSEIF v_mode = 2 THEN
            UPDATE tenure_slots SET floor = floor + 1 WHERE slot = v_slot;
        ELSEIF v_mode = 4 THEN
            UPDATE tenure_slots SET floor = floor + 1
                WHERE slot IN (v_slot, v_slot + 1, v_slot + 2, v_slot + 3, v_slot + 4, v_slot + 5, v_slot + 6, v_slot + 7);
        ELSEIF v_mode = 5 THEN
            UPDATE tenure_slots SET floor = v_count WHERE slot = v_slot + a_place;
        END IF;
    END WHILE;
    IF a_gate = 2 THEN
        UPDATE tenure_desks SET gate = gate + 1;
    END IF;
    UPDATE tenure_desks SET turn = turn + 1, ring = LEFT(CONCAT(a_note, ring), 1024) WHERE desk = a_desk;

    COMMIT;
    SELECT NULL AS failed, v_version AS version;
END
